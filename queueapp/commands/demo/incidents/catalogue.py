"""The incidents: what each is, what the operator sees and does, and how it is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from queueapp.commands.demo.incidents.stage import (
    CREW,
    ECHO,
    EVENING,
    IMPORT,
    MAIL,
    REPORT,
    SYNC,
    Stage,
    minute,
    spread,
)
from queueapp.jobs.control import QUEUE
from queueapp.jobs.failure import described
from queueapp.jobs.status import Event

_HOUR = 3_600.0
RUNAWAY_JOBS = 5_000
# The minutes of a deploy, and of a flood.
_LATELY = 12

Make = Callable[[Stage], None]


@dataclass(frozen=True)
class Incident:
    """One incident. ``rule``: the verdict's, ``level`` its level; ``clicks``: of the drill."""

    rule: str
    level: str
    sees: str
    path: str
    clicks: int
    make: Make


def _trace(line: int, function: str, source: str, error: str) -> str:
    return (
        "Traceback (most recent call last):\n"
        f'  File "/srv/shop/shop/jobs.py", line {line}, in {function}\n    {source}\n{error}\n'
    )


_REFUSED = described(
    "ConnectionError",
    "smtp.example.com:25 refused the connection",
    _trace(31, "deliver", "smtp.connect(host, port)",
           "ConnectionError: smtp.example.com:25 refused the connection"),
)  # fmt: skip
_TEMPLATE = described(
    "TemplateError",
    "'invoice.html' has no block 'total'",
    _trace(58, "render", "return template.block(name)",
           "TemplateError: 'invoice.html' has no block 'total'"),
)  # fmt: skip
_KEY = described(
    "KeyError",
    "'vat_rate'",
    _trace(84, "price_of", "return net * (1 + order['vat_rate'])", "KeyError: 'vat_rate'"),
)  # fmt: skip


def _mail(n: int) -> Mapping[str, Any]:
    return {"to": f"customer-{n}@example.com", "template": "invoice", "order": 40_000 + n}


def _paused(stage: Stage) -> None:
    stage.crew()
    stage.past.event(Event.QUEUE_PAUSED, QUEUE, 14 * _HOUR, reason="migration")
    stage.waiting(MAIL, spread(231, 13.5 * _HOUR, 40), _mail)
    stage.minutes(20, {MAIL: minute(enqueued=1)})
    stage.works = (MAIL,)


def _no_workers(stage: Stage) -> None:
    for name, stopped in zip(CREW, (900, 640, 190), strict=True):
        stage.worker(name, seen=stopped + 20, since=_HOUR, stopped=stopped)
    stage.minutes(20, EVENING, upto=195)
    # Those that a real worker can run: starting one ends the incident.
    stage.waiting(ECHO, spread(40, 170, 5))


def _slots_held(stage: Stage) -> None:
    stage.crew()
    stage.minutes(14, EVENING, upto=370)
    stage.minutes(6, {MAIL: minute(enqueued=60)})
    stage.ended(MAIL, [345, 340])
    for name, age in zip(CREW, (2_520, 2_400, 2_280), strict=True):
        stage.running(REPORT, name, [age])
    stage.waiting(MAIL, spread(60, 320, 5), _mail)
    stage.works = (MAIL,)


def _locked(stage: Stage) -> None:
    stage.crew()
    stage.minutes(14, EVENING, upto=370)
    stage.minutes(6, {MAIL: minute(enqueued=60)})
    stage.ended(MAIL, [345, 340])
    stage.waiting(MAIL, spread(60, 320, 5), _mail)
    stage.works = (MAIL,)


def _poison(stage: Stage) -> None:
    stage.crew()
    stage.minutes(8, EVENING, upto=10 + 60 * _LATELY)
    told = minute(enqueued=60, claimed=60, succeeded=42, retry_scheduled=18, wait={"9": 60})
    stage.minutes(_LATELY, {MAIL: told})
    stage.flow(9, 4)
    stage.fails = MAIL
    ages = spread(212, 700, 6)
    stage.failed(MAIL, ages, _TEMPLATE, again_in=spread(212, 300, 1_800), payload=_mail)


def _killer(stage: Stage) -> None:
    stage.crew()
    stage.minutes(20, EVENING)
    stage.flow(9, 4)
    dead = [f"drill-{n}:{n}0{n}:{n}f" for n in (4, 5, 6)]
    stage.killed(IMPORT, dead, [1_400, 900, 400])


def _dead_worker(stage: Stage) -> None:
    first, second, third = CREW
    stage.worker(first, lease_s=300)
    stage.worker(second, lease_s=300, slots=4, seen=215)
    stage.worker(third, lease_s=300)
    stage.minutes(20, EVENING)
    stage.flow(9, 4)
    # Renewed last thirty seconds after the claim, which leaves ninety.
    stage.running(SYNC, second, [240, 240, 239, 238], lease_s=330)
    stage.works = (SYNC,)


def _retry_storm(stage: Stage) -> None:
    stage.crew()
    stage.minutes(14, EVENING, upto=370)
    told = minute(
        enqueued=20, claimed=100, retries=80, succeeded=24, retry_scheduled=76, wait={"9": 100}
    )
    stage.minutes(6, {MAIL: told})
    stage.flow(9, 4)
    stage.fails = MAIL
    ages = spread(240, 330, 2)
    stage.failed(MAIL, ages, _REFUSED, again_in=spread(240, 300, 1_800), payload=_mail)


def _bad_deploy(stage: Stage) -> None:
    deployed = 60.0 * _LATELY + 5
    stage.worker("drill-1:101:a1", seen=deployed + 9, since=2 * _HOUR, stopped=deployed,
                 release="v41")  # fmt: skip
    stage.worker("drill-1:140:b7", seen=65, since=deployed, stopped=60, release="v42")
    stage.worker("drill-1:177:c4", since=55, release="v41", slots=4)
    stage.minutes(8, EVENING, upto=10 + 60 * _LATELY)
    told = minute(enqueued=100, claimed=100, failed=70, succeeded=30, wait={"9": 100})
    stage.minutes(_LATELY, {MAIL: told})
    stage.flow(9, 4)
    stage.failed(MAIL, spread(840, deployed - 15, 62), _KEY, payload=_mail)
    # Until they are retried nothing tells whether mails go well again.
    stage.line = {REPORT: EVENING[REPORT]}
    stage.works = (MAIL,)


def _runaway(stage: Stage, jobs: int = RUNAWAY_JOBS) -> None:
    stage.crew()
    stage.minutes(8, EVENING, upto=10 + 60 * _LATELY)
    flood = minute(enqueued=max(jobs // _LATELY, 60), claimed=20, succeeded=20, wait={"9": 20})
    stage.minutes(_LATELY, {SYNC: flood})
    stage.ended(SYNC, [9, 6, 3])
    stage.waiting(SYNC, spread(jobs, 700, 1), lambda n: {"contact": n, "source": "crm-import"})
    stage.works, stage.pace = (SYNC,), 1


def runaway(jobs: int) -> Make:
    """The runaway producer with so many jobs."""
    return lambda stage: _runaway(stage, jobs)


INCIDENTS: dict[str, Incident] = {
    "paused": Incident(
        "paused", "red",
        "Paused by ana 14 hours ago for a migration, and forgotten: 231 mails are due behind it.",
        "The banner says who paused it and why, and leads to the question; resume.",
        2, _paused,
    ),
    "no-workers": Incident(
        "no_workers", "red",
        "No worker is alive; the last one stopped three minutes ago. 40 jobs are due.",
        "The banner leads to the workers: who ended when, and why. Start one, with the command that"
        " the drill prints as Worker.",
        1, _no_workers,
    ),
    "slots-held": Incident(
        "stalled", "red",
        "Three of three threads run report.build for forty minutes; it takes half a minute else."
        " Mails wait behind them.",
        "Cancel the longest runs from the banner, confirm.",
        3, _slots_held,
    ),
    "locked": Incident(
        "stalled", "red",
        "Mails are due, no thread is busy: workers cannot claim.",
        "The banner leads to the system: who holds the lock stands on top. End it in psql.",
        1, _locked,
    ),
    "poison": Incident(
        "failing", "amber",
        "A third of the mails fails with one error: 212 of them wait to fail again.",
        "The banner leads to the error; cancel those that wait, confirm.",
        3, _poison,
    ),
    "killer": Incident(
        "worker_killer", "red",
        "One job was running when three workers vanished, and its handler never came to report an"
        " error.",
        "The banner leads to the job; hold or cancel it, confirm.",
        3, _killer,
    ),
    "dead-worker": Incident(
        "stale_worker", "amber",
        "One worker is silent for three minutes and holds four jobs; the others work. All run with"
        " --lease 300: with 60 s, which is the default, the leases would have ended long ago.",
        "The banner leads to the worker; release its jobs, confirm. Or wait for its leases.",
        3, _dead_worker,
    ),
    "retry-storm": Incident(
        "retry_storm", "red",
        "Eight of ten starts are retries: the mail server refuses connections.",
        "The banner leads to the error; hold mail.send, confirm. When the server is back, there as"
        " well: unhold it, spread over some minutes.",
        3, _retry_storm,
    ),
    "bad-deploy": Incident(
        "failing", "red",
        "Two thirds of the mails failed, with an error that is new since the last deploy. It was"
        " rolled back a minute ago: 840 jobs stay failed.",
        "The banner leads to the error; retry all that failed, confirm. Or try five first.",
        3, _bad_deploy,
    ),
    "runaway": Incident(
        "falling_behind", "amber",
        "One kind comes faster than it ends, for ten minutes; thousands are due.",
        "The banner leads to the due jobs of the kind; all that match, cancel, type their number."
        " Who may not move so many holds the kind there.",
        4, _runaway,
    ),
}  # fmt: skip
