"""``bench/run``: the command line, and the order of events."""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

from bench import limit
from bench.errors import Failed, Missing
from bench.installation import HERE, Installation
from bench.place import Caller, Database
from bench.records import Records
from bench.services import Postgres
from bench.table import BY_NAME
from bench.workloads import FULL, WORKLOADS, Subject


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default=",".join(BY_NAME))
    parser.add_argument("--workloads", default="w3")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--scratch", type=Path, default=HERE / ".scratch")
    options = parser.parse_args()
    scratch = options.scratch.resolve()
    (scratch / "results").mkdir(parents=True, exist_ok=True)
    raw = scratch / "results" / "raw.jsonl"
    installation = Installation(scratch, print)
    records = Records(scratch / "records")

    def note(**line: object) -> None:
        line = {k: round(v, 4) if isinstance(v, float) else v for k, v in line.items()}
        line |= {"load": round(os.getloadavg()[0], 2), "t": int(time.time())}
        with raw.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(json.dumps(line), flush=True)

    with Postgres(scratch, None) as postgres:
        sizes = {"waiting": FULL.waiting, "history": FULL.history, "scheduled": FULL.history}
        for number in range(options.rounds):
            for which in ("one", "batch"):
                figures = limit.measure(postgres, which, seconds=2, scratch=scratch)
                note(peer="limit", workload=which, round=number, **figures)
            for name in options.only.split(","):
                peer = BY_NAME[name]
                try:
                    installation.ready(peer)
                except Missing as reason:
                    note(peer=name, round=number, status="missing", why=str(reason))
                    continue
                caller = Caller(peer, installation, scratch)
                place = Database(caller, postgres, sizes)
                caller.address = place.address()
                subject = Subject(caller, place, records, FULL)
                for workload in options.workloads.split(","):
                    try:
                        for key, figures in WORKLOADS[workload](subject).items():
                            note(peer=name, workload=key, round=number, **figures)
                    except Failed as reason:
                        note(peer=name, workload=workload, status="failed", why=str(reason))
                place.drop()


if __name__ == "__main__":
    main()
