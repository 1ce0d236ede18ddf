"""Workers in all languages share one queue, and one of each is killed in the middle of its work."""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from queueapp.auth.tokens import entry_of, new_token
from tests.live import reference_workers
from tests.live.checks import stand
from tests.live.journey import Journey
from tests.live.processes import Process, until

JOBS = 1000
LEASE_S = 6
PLACES = 4
# More than all workers have places, so that each holds one of them: time to kill it.
LONG, LONG_S = 40, 4.0

_AT_WORK = """
SELECT count(*) FROM jobs WHERE status = 'running' AND locked_by LIKE %(holder)s
  AND payload->>'seconds' = '4.0' AND claimed_at > clock_timestamp() - interval '2 s'
"""
_LEFT = "SELECT count(*) FROM jobs WHERE status IN ('queued', 'running')"
_WRONG = """
SELECT id, status, result FROM jobs
WHERE status <> 'succeeded' OR result IS DISTINCT FROM jsonb_build_object('echo', payload->'echo')
"""
_SETTLED = """
SELECT coalesce(substring(actor FROM '^token:([a-z]+)-'), 'python') AS language, count(*) AS jobs
FROM job_events WHERE event = 'succeeded' GROUP BY 1
"""
_LOST = """
SELECT count(*) FROM job_events WHERE event = 'lease_expired' AND data->>'holder' LIKE %(holder)s
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_workers_in_all_languages_drain_a_queue_together(journey: Journey, tmp_path: Path) -> None:
    languages = reference_workers.commands(tmp_path)
    tokens = {f"{language}-{number}": new_token() for language in languages for number in (1, 2)}
    entries = [entry_of(token, name, "worker") for name, token in tokens.items()]
    producer = new_token()
    entries.append(entry_of(producer, "shop", "producer"))
    web = journey.web(threads=16, QUEUE_MAX_WAITERS="8", QUEUE_TOKENS=" ".join(entries))
    one, _ = journey.workers(2, f"--concurrency={PLACES}", f"--lease={LEASE_S}", "--prefetch=0")
    doomed = {f"%:{one.pid}:%": one}
    for name, token in tokens.items():
        language, number = name.split("-")
        worker = started(journey, name, languages[language], web.port, token)
        if number == "1":
            doomed[f"token:{name}"] = worker
    until(lambda: journey.workers_seen() == 2 + len(tokens), "all workers have asked for jobs")

    jobs = [job(number) for number in range(JOBS)]
    bearer = {"Authorization": f"Bearer {producer}"}
    created = web.ask("POST", "/api/jobs/bulk", jobs, **bearer).body
    assert created["counts"]["new"] == JOBS
    kill_in_mid_work(journey, doomed)
    until(lambda: not journey.one(_LEFT), "all jobs end", 200)

    assert journey.rows(_WRONG) == []
    settled = {row.language: row.jobs for row in journey.rows(_SETTLED)}
    lost = {holder: journey.one(_LOST, holder=holder) for holder in doomed}
    sys.stdout.write(f"settled: {settled}\nlost with those who were killed: {lost}\n")
    assert set(settled) == {*languages, "python"}
    assert sum(settled.values()) == JOBS
    assert all(lost.values())
    audit = journey.processes.start("audit", "flask", "--app", "wsgi", "audit")
    assert audit.wait() == 0, audit.said()
    stand(journey, accepted=[item["id"] for item in created["items"]], every_claim_started=False)


def job(number: int) -> dict[str, object]:
    """The first ones are long, and come first."""
    is_long = number < LONG
    payload = {"seconds": LONG_S if is_long else 0.05, "echo": f"job {number}"}
    return {"kind": "journey.shared", "payload": payload, "priority": int(is_long)}


def started(journey: Journey, name: str, command: list[str], port: int, token: str) -> Process:
    return journey.processes.start_line(
        name,
        f"exec {shlex.join(command)}",
        QUEUE_URL=f"http://127.0.0.1:{port}",
        QUEUE_TOKEN=token,
        QUEUE_KINDS="journey.shared",
        QUEUE_LEASE=str(LEASE_S),
        QUEUE_SLOTS=str(PLACES),
        no_proxy="127.0.0.1",
    )


def kill_in_mid_work(journey: Journey, doomed: Mapping[str, Process]) -> None:
    """Kill each as soon as it is seen to have just begun with a long job; by holder."""
    left = dict(doomed)

    def one_more_is_dead() -> bool:
        for holder, worker in list(left.items()):
            if journey.one(_AT_WORK, holder=holder):
                worker.send_to_all(signal.SIGKILL)
                del left[holder]
        return not left

    until(one_more_is_dead, "each of those who are to die is at work")
