"""Where an incident is made: what the ledger says of the evening, jobs, and who plays the workers.

Jobs are created, claimed and settled through the verbs, by workers that are names only, and are
then moved back in time. Nothing runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from queueapp.errors import QueueError
from queueapp.jobs import transitions
from queueapp.jobs.backoff import Backoff
from queueapp.jobs.claim import Claim, Holder
from queueapp.jobs.endings import Endings
from queueapp.jobs.failure import Failure
from queueapp.jobs.models import Job
from queueapp.jobs.past import Past, move_back
from queueapp.jobs.presence import LIVE_S
from queueapp.jobs.transitions import Held, NewJob
from queueapp.version import VERSION

PRODUCER = "drill"
LEASE_S = 60.0
ECHO, MAIL, REPORT, SYNC, IMPORT = (
    "demo.echo", "mail.send", "report.build", "sync.contact", "import.catalogue",
)  # fmt: skip
KINDS = (ECHO, IMPORT, MAIL, REPORT, SYNC)
CREW = ("drill-1:101:a1", "drill-2:102:b2", "drill-3:103:c3")
# How long every attempt took that has ended.
_RAN_S = 0.4

Payload = Callable[[int], Mapping[str, Any]]


class NotOurs(QueueError):
    """A drill would take jobs that are somebody's own."""

    code = "not_ours"
    status = 409
    title = "The database has jobs of its own"


def spread(count: int, first: float, last: float) -> list[float]:
    """So many numbers from ``first`` to ``last``, as far from each other."""
    step = (last - first) / max(count - 1, 1)
    return [first + step * place for place in range(count)]


def minute(**told: Any) -> dict[str, Any]:
    """What a minute's line says of a kind: its events, ``retries``, and ``wait`` and ``run``."""
    parts = {name: told.pop(name, {}) for name in ("wait", "run")}
    return {"retries": told.pop("retries", 0), **parts, "events": told}


# A good evening's minute: waits of half a second, mails of two and reports of thirty seconds.
EVENING = {
    MAIL: minute(enqueued=60, claimed=60, succeeded=60, wait={"9": 60}, run={"11": 60}),
    REPORT: minute(enqueued=2, claimed=2, succeeded=2, wait={"9": 2}, run={"15": 2}),
}


class _Ended(Endings):
    """The end of an attempt that nobody ran."""

    def __init__(self, claim: Claim) -> None:
        super().__init__(claim, Backoff(), {"slot": 0})

    def ran_s(self) -> float:
        """As long as all of them."""
        return _RAN_S


@dataclass
class Stage:
    """The stage of one incident.

    ``signs``: what each live worker says of itself; ``leases``: what live workers hold;
    ``works``: the kinds that live workers work off, ``pace`` jobs a tick and thread; ``flows``:
    whether other work goes on beside it; ``line``: the minute that goes on; ``fails``: the kind of
    it that fails until somebody lifts a hold of it, or no job that failed so is left.
    """

    session: Session
    drill: str
    signs: dict[str, dict[str, Any]] = field(default_factory=dict)
    leases: list[tuple[Claim, Holder]] = field(default_factory=list)
    works: tuple[str, ...] = ()
    pace: int = 3
    flows: bool = False
    line: Mapping[str, Any] = field(default_factory=dict)
    fails: str | None = None

    @property
    def past(self) -> Past:
        """What writes events of the past, each marked as this drill's."""
        return Past(self.session, drill=self.drill)

    def worker(
        self,
        name: str,
        *,
        seen: float = 5,
        since: float = 1_800,
        stopped: float | None = None,
        **told: Any,
    ) -> None:
        """Let a worker have signed ``since`` and last ``seen`` seconds ago; ``told``: its sign."""
        sign = {"host": name.partition(":")[0], "slots": 1, "kinds": list(KINDS), **told}
        sign = {"version": VERSION, "lost": 0, "lease_s": LEASE_S, "release": "", **sign}
        self.past.worker(name, seen=seen, since=since, stopped=stopped, **sign)
        if stopped is None and seen < LIVE_S:
            self.signs[name] = sign

    def crew(self, **told: Any) -> None:
        """Three live workers of one thread each."""
        for name in CREW:
            self.worker(name, **told)

    def minutes(self, count: int, kinds: Mapping[str, Any], *, upto: float = 10) -> None:
        """So many minute's lines, the last one ``upto`` seconds ago; they go on like that."""
        self.past.lines(count, kinds, upto=upto)
        self.line = kinds

    def waiting(self, kind: str, ages: Sequence[float], payload: Payload | None = None) -> None:
        """Jobs that have been due for so many seconds, the longest first."""
        self._back(self._created(kind, len(ages), payload), ages)

    def ended(self, kind: str, ages: Sequence[float]) -> None:
        """Jobs that succeeded so many seconds ago."""
        ids = self._created(kind, len(ages), None)
        self._settle([_Ended(claim).outcome("succeed") for claim in self._claim_all(kind, ids)])
        self._back(ids, ages)

    def flow(self, *ages: float) -> None:
        """Other work ended so many seconds ago, and goes on."""
        self.flows = True
        self.ended(ECHO, ages)

    def failed(
        self,
        kind: str,
        ages: Sequence[float],
        failure: Failure,
        *,
        again_in: Sequence[float] = (),
        payload: Payload | None = None,
    ) -> None:
        """Jobs whose first attempt failed so many seconds ago.

        ``again_in``: in how many seconds each is tried again; without it they have ended so.
        """
        ids = self._created(kind, len(ages), payload, max_attempts=5 if again_in else 1)
        waits = {i: age + more for i, age, more in zip(ids, ages, again_in, strict=False)}
        self._settle(
            [
                _Ended(claim).failed(failure, after_s=waits.get(claim.id))
                for claim in self._claim_all(kind, ids)
            ]
        )
        self._back(ids, ages)

    def running(
        self, kind: str, worker: str, ages: Sequence[float], *, lease_s: float = LEASE_S
    ) -> None:
        """Jobs that ``worker`` has been running for so long; a live one renews their leases."""
        holder = Holder(f"worker:{worker}", lease_s=lease_s, only=(kind,))
        ids = self._created(kind, len(ages), None)
        claims = self._claim_all(kind, ids, holder)
        self._back(ids, ages)
        if worker in self.signs:
            self.leases += [(claim, holder) for claim in claims]
            self.renew()

    def killed(self, kind: str, workers: Sequence[str], ages: Sequence[float]) -> int:
        """A job that takes one worker after the other with it; its id."""
        [job_id] = self._created(kind, 1, lambda _: {"file": "catalogue-2031.csv"})
        for place, (name, since) in enumerate(zip(workers, ages, strict=True)):
            until = ages[place + 1] if place + 1 < len(ages) else 0.0
            self.worker(name, seen=since + 20, since=since + 900)
            self._claim_all(kind, [job_id], Holder(f"worker:{name}", lease_s=LEASE_S, only=(kind,)))
            # It is to be tried again at once for the next one, and not so soon after the last.
            backoff = Backoff(base_s=1.0) if until else Backoff(base_s=since * 2)
            death = transitions.Death(f"worker:{name}", "signal 9", crashed=False)
            transitions.take_back(
                self.session, death, actor="sweeper:drill-1:101:a1", backoff=backoff
            )
            self._back([job_id], [since - until])
        return job_id

    def renew(self) -> None:
        """Renew the leases of those who live."""
        for claim, holder in self.leases:
            transitions.renew(self.session, [Held(claim.id, claim.token)], holder)
        self.session.commit()

    def claim(self, holder: Holder, count: int) -> list[Claim]:
        """Claim as ``holder`` would. Raises NotOurs, and takes none, where one is no drill's."""
        claims = transitions.exchange(self.session, [], holder, slots=count).claims
        others = sa.select(Job.kind).where(
            Job.id.in_([claim.id for claim in claims]), Job.producer != PRODUCER
        )
        if kind := self.session.scalar(others.limit(1)):
            self.session.rollback()
            raise NotOurs(
                f"jobs of the kind {kind} are due that are no drill's, which its workers would"
                " have to run: let `flask work` finish them first, or practise on a database that"
                " has none (DATABASE_URL=… and --into-database-url)"
            )
        return claims

    def finish(self, claims: Sequence[Claim], verb: str) -> None:
        """Settle what was claimed, all alike."""
        self._settle([_Ended(claim).outcome(verb) for claim in claims])

    def _created(
        self, kind: str, count: int, payload: Payload | None, *, max_attempts: int = 5
    ) -> list[int]:
        payload = payload or (lambda n: {"message": f"drill {n}"})
        new = [
            NewJob(kind=kind, payload=dict(payload(n)), max_attempts=max_attempts)
            for n in range(1, count + 1)
        ]
        made = transitions.enqueue(
            self.session, new, producer=PRODUCER, actor=f"token:{PRODUCER}", via="api"
        )
        self.session.commit()
        return [one.id for one in made]

    def _claim_all(
        self, kind: str, ids: Sequence[int], holder: Holder | None = None
    ) -> list[Claim]:
        first = next(iter(self.signs), CREW[0])
        holder = holder or Holder(f"worker:{first}", lease_s=LEASE_S, only=(kind,))
        claims = self.claim(holder, len(ids))
        assert {claim.id for claim in claims} == {*ids}
        return claims

    def _settle(self, outcomes: Sequence[transitions.Outcome]) -> None:
        actor = f"worker:{next(iter(self.signs), CREW[0])}"
        transitions.settle(self.session, outcomes, actor=actor)
        self.session.commit()

    def _back(self, ids: Sequence[int], ages: Sequence[float]) -> None:
        move_back(self.session, ids, ages)
        self.session.commit()
