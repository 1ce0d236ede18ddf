"""The raw results of a run: one JSON object a line, each written as soon as it is known.

The first line has the conditions, and so has each with which a run was taken up again. A line of a
measurement has ``peer``, ``workload``, ``round``, ``step`` (the workload as whose part it was
measured), ``load`` (the machine's load average then) and ``status``: ``ok`` with its figures, or
``missing``, ``failed`` or ``none`` (nothing to measure) with ``why``.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

Line = dict[str, Any]


# What must not change where a run is taken up again.
_SAME = ("machine", "versions", "postgresql_settings", "size", "code")


class Raw:
    """The file of one run; ``again``: one that is taken up again.

    Raises ValueError where the conditions have changed since: it would be two runs.
    """

    def __init__(self, folder: Path, conditions: Line, again: Path | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = again or folder / time.strftime("%Y%m%d-%H%M%S.jsonl", time.gmtime())
        if again:
            before = read(again)[0]
            now = json.loads(json.dumps(conditions))
            changed = [name for name in _SAME if before.get(name) != now.get(name)]
            if changed:
                raise ValueError(f"{again} cannot be completed: {', '.join(changed)} differ now")
        self._write({"workload": "conditions", **conditions})

    def add(self, peer: str, workload: str, round_: int, **figures: Any) -> Line:
        """Write one line; return it."""
        line: Line = {"peer": peer, "workload": workload, "round": round_}
        line |= {"load": os.getloadavg()[0], "at": int(time.time()), "status": "ok", **figures}
        self._write(line)
        return line

    def _write(self, line: Line) -> None:
        rounded = {
            name: round(value, 5) if isinstance(value, float) else value
            for name, value in line.items()
        }
        with self.path.open("a") as file:
            file.write(json.dumps(rounded, ensure_ascii=False) + "\n")


def read(path: Path) -> tuple[Line, list[Line]]:
    """The conditions, and the measurements in their order."""
    lines = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
    if not lines or lines[0].get("workload") != "conditions":
        raise ValueError(f"{path} does not begin with the conditions of a run")
    starts = [line for line in lines if line["workload"] == "conditions"]
    found = [line for line in lines if line["workload"] != "conditions"]
    good = {_name(line) for line in found if line["status"] == "ok" and line["peer"] != "limit"}
    kept = [line for line in found if line["status"] == "ok" or _name(line) not in good]
    return {**starts[0], "rounds": starts[-1]["rounds"], "starts": len(starts)}, kept


def steps_done(path: Path) -> set[tuple[int, str, str]]:
    """Round, peer and workload of what has a figure."""
    return {
        (line["round"], line["peer"], str(line.get("step", line["workload"])))
        for line in read(path)[1]
        if line["status"] == "ok"
    }


def _name(line: Line) -> tuple[str, str, int]:
    return line["peer"], line["workload"], line["round"]


def newest(folder: Path) -> Path:
    """The file of the last run. Raises FileNotFoundError when there is none."""
    files = sorted(folder.glob("[0-9]*-[0-9]*.jsonl"))
    if not files:
        raise FileNotFoundError(f"no results in {folder}: run the bench first")
    return files[-1]
