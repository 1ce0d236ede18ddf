#!/usr/bin/env python3
"""Put a worker, in whatever language, through what will happen to it some day.

    python3 conformance.py [--url URL] [--kind KIND] [--only NAME,…] COMMAND…

COMMAND starts the worker, which reads QUEUE_URL, QUEUE_TOKEN, QUEUE_KINDS, QUEUE_LEASE and
QUEUE_SLOTS (how many jobs at a time: 1 here) from its environment, and runs jobs of those kinds: it
works for payload.seconds, then fails with the text payload.fail, or succeeds with the result
{"echo": payload.echo}. The queue is one for tests: it accepts the kind, as with
QUEUE_EXTERNAL_KINDS=example.work, and a ``flask work`` runs beside it. QUEUE_ADMIN_TOKEN may
create, see and cancel jobs. The worker talks through a proxy, which breaks what is to be broken.

Prints a line for each case; exits 1 if one failed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from proxy import Proxy, ask

LEASE_S = 3
PATIENCE_S = 60.0
# Work that nobody waits for: whoever does has not heard that it should stop.
ENDLESS_S = 120


class Case:
    """What a case has at hand: the queue, a proxy, and workers of the author's."""

    def __init__(self, url: str, kind: str, command: list[str]) -> None:
        self.url = url
        self.kind = kind
        self.proxy = Proxy(url)
        self._command = command
        self._workers: list[subprocess.Popen[bytes]] = []

    def start(self) -> subprocess.Popen[bytes]:
        """Start a worker, with a process group of its own."""
        address = f"http://127.0.0.1:{self.proxy.server_port}"
        environment = {**os.environ, "QUEUE_URL": address, "QUEUE_KINDS": self.kind}
        environment |= {"QUEUE_LEASE": str(LEASE_S), "QUEUE_SLOTS": "1"}
        environment.pop("QUEUE_ADMIN_TOKEN", None)
        worker = subprocess.Popen(self._command, env=environment, start_new_session=True)
        self._workers.append(worker)
        return worker

    def api(self, method: str, path: str, body: Any = None) -> Any:
        """Ask the queue itself."""
        text = None if body is None else json.dumps(body).encode()
        status, said = ask(self.url, method, path, text, os.environ.get("QUEUE_ADMIN_TOKEN"))
        assert status < 300, f"{method} {path}: {status} {said.decode()}"
        return json.loads(said)

    def enqueue(self, attempts: int = 2, **payload: Any) -> int:
        """Create a job."""
        body = {"kind": self.kind, "payload": payload, "max_attempts": attempts}
        return int(self.api("POST", "/api/jobs", body)["id"])

    def job(self, number: int) -> Any:
        return self.api("GET", f"/api/jobs/{number}")

    def wait(self, number: int, *statuses: str) -> Any:
        """Wait until the job is in one of ``statuses``; the job."""
        until(lambda: self.job(number)["status"] in statuses, f"job {number} {'/'.join(statuses)}")
        return self.job(number)

    def wait_for_event(self, number: int, event: str) -> None:
        def has_come() -> bool:
            events = self.api("GET", f"/api/jobs/{number}/events")["items"]
            return event in [one["event"] for one in events]

        until(has_come, f"event {event} of job {number}")

    def kill(self, worker: subprocess.Popen[bytes]) -> None:
        """End it as a machine that dies does, its children as well."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()
        self.proxy.hang_up()

    def close(self) -> None:
        """Leave nothing running."""
        for worker in self._workers:
            self.kill(worker)
        self.proxy.shutdown()
        self.proxy.server_close()


def until(look: Callable[[], bool], what: str) -> None:
    """Look until it is so."""
    deadline = time.monotonic() + PATIENCE_S
    while not look():
        assert time.monotonic() < deadline, f"not within {PATIENCE_S:g} s: {what}"
        time.sleep(0.1)


# The cases


def results(case: Case) -> None:
    """A result, and an error, are kept with the job"""
    case.start()
    good = case.enqueue(echo={"ü": [1, None]})
    bad = case.enqueue(attempts=1, fail="no such picture")
    assert case.wait(good, "succeeded")["result"] == {"echo": {"ü": [1, None]}}
    said = case.wait(bad, "failed")["error_message"]
    assert "no such picture" in said, said


def renewals(case: Case) -> None:
    """A job that takes longer than its lease keeps it"""
    case.start()
    job = case.wait(case.enqueue(seconds=2 * LEASE_S), "succeeded", "failed")
    assert (job["status"], job["attempts"]) == ("succeeded", 1), job
    assert "renewed" in case.proxy.outcomes("/renew")


def cancelled(case: Case) -> None:
    """A job that somebody cancels is stopped"""
    case.start()
    number = case.enqueue(seconds=ENDLESS_S)
    case.wait(number, "running")
    case.api("POST", f"/api/jobs/{number}/cancel")
    case.wait(number, "cancelled")


def stopped(case: Case) -> None:
    """SIGTERM: the job is given back unused, and the worker ends"""
    worker = case.start()
    number = case.enqueue(seconds=ENDLESS_S)
    case.wait(number, "running")
    worker.terminate()
    assert worker.wait(PATIENCE_S) == 0, f"exit status {worker.returncode}"
    job = case.job(number)
    assert (job["status"], job["attempts"]) == ("queued", 0), job
    case.api("POST", f"/api/jobs/{number}/cancel")


def killed(case: Case) -> None:
    """Killed in mid job: another worker runs it again"""
    worker = case.start()
    number = case.enqueue(seconds=1)
    case.wait(number, "running")
    case.kill(worker)
    case.start()
    job = case.wait(number, "succeeded", "failed")
    assert (job["status"], job["attempts"]) == ("succeeded", 2), job


def renewal_lost(case: Case) -> None:
    """A renewal answered lost: the work is stopped, and the worker goes on"""
    case.start()
    number = case.enqueue(seconds=ENDLESS_S)
    case.wait(number, "running")
    case.proxy.deaf = {"/renew", ""}
    case.wait_for_event(number, "lease_expired")
    case.api("POST", f"/api/jobs/{number}/cancel")
    case.proxy.deaf = set()
    case.wait(case.enqueue(echo="next"), "succeeded")
    assert case.job(number)["result"] is None


def late_result(case: Case) -> None:
    """A result after the end of the lease is answered lost: dropped, and the worker goes on"""
    case.start()
    case.proxy.deaf = {"/renew", "/settle"}
    number = case.enqueue(seconds=1, echo="late")
    case.wait(number, "running")
    case.proxy.deaf = {"/renew", "/settle", ""}
    case.wait_for_event(number, "lease_expired")
    case.api("POST", f"/api/jobs/{number}/cancel")
    case.proxy.deaf = set()
    case.wait(case.enqueue(echo="next"), "succeeded")
    assert case.job(number)["status"] == "cancelled"
    assert "lost" in case.proxy.outcomes("/settle") + case.proxy.outcomes("/renew")


def frozen(case: Case) -> None:
    """Frozen past its lease: the attempt is lost, and the worker goes on"""
    worker = case.start()
    number = case.enqueue(seconds=1, echo="thawed")
    case.wait(number, "running")
    os.killpg(worker.pid, signal.SIGSTOP)
    case.wait_for_event(number, "lease_expired")
    os.killpg(worker.pid, signal.SIGCONT)
    job = case.wait(number, "succeeded", "failed")
    assert (job["status"], job["attempts"]) == ("succeeded", 2), job


def unheard(case: Case) -> None:
    """An answer that does not arrive: the end is sent again, and is a repeat"""
    case.start()
    case.proxy.mute = {"/settle"}
    number = case.enqueue(echo=1)
    case.wait(number, "succeeded")
    case.proxy.mute = set()
    until(lambda: "repeat" in case.proxy.outcomes("/settle"), "the end is sent again")
    assert case.wait(case.enqueue(echo="next"), "succeeded")["attempts"] == 1


CASES = (
    results, renewals, cancelled, stopped, killed, renewal_lost, late_result, frozen, unheard,
)  # fmt: skip


@contextlib.contextmanager
def opened(url: str, kind: str, command: list[str]) -> Iterator[Case]:
    case = Case(url, kind, command)
    try:
        yield case
    finally:
        case.close()


def passes(case_of: Callable[[Case], None], url: str, kind: str, command: list[str]) -> bool:
    """Run one case and print what came of it."""
    began, said = time.monotonic(), ""
    try:
        with opened(url, kind, command) as case:
            case_of(case)
    except AssertionError as error:
        said = f"\n      {error or 'not as it should be'}"
    mark, about = "FAIL" if said else "ok", (case_of.__doc__ or "").strip()
    took = time.monotonic() - began
    print(f"{mark:<4}  {case_of.__name__:<12}  {about} ({took:.1f} s){said}", flush=True)
    return not said


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--url", default="http://127.0.0.1:8000")
    options.add_argument("--kind", default="example.work", help="what the worker is to run")
    options.add_argument("--only", default="", help=", ".join(one.__name__ for one in CASES))
    options.add_argument("command", nargs=argparse.REMAINDER)
    given = options.parse_args()
    if not given.command:
        options.error("say how the worker is started")
    names = [name for name in given.only.split(",") if name]
    cases = [one for one in CASES if not names or one.__name__ in names]
    passed = [passes(one, given.url, given.kind, given.command) for one in cases]
    print(f"{sum(passed)} of {len(passed)} passed")
    return 0 if passed and all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
