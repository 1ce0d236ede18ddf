"""The incident goes on while its command runs: workers sign, renew, obey, and work off what is due.

They are played by rows and by idle connections that bear their names. Nothing runs.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Self

import sqlalchemy as sa

from queueapp.commands.demo.incidents.lock import connect
from queueapp.commands.demo.incidents.stage import EVENING, LEASE_S, Stage, minute
from queueapp.errors import OperationBusy, OperationNotFound
from queueapp.jobs import control, minute_stats, operations, transitions
from queueapp.jobs.backoff import Backoff
from queueapp.jobs.claim import Holder
from queueapp.jobs.connection_names import connection_name
from queueapp.jobs.expiry import lift_expired
from queueapp.jobs.holds import Holds
from queueapp.jobs.models import Job
from queueapp.jobs.queries import database_now
from queueapp.jobs.status import Event, Status

_SIGN_S, _LINE_S = 20.0, 60.0
_HOUSEKEEPING, _SWEEPER = "housekeeping:drill", "sweeper:drill"


class Cast:
    """Plays the live workers of a stage; entered, they are connected. ``tick`` about once a second.

    ``is_blocked``: whether they cannot touch jobs now.
    """

    def __init__(
        self, stage: Stage, url: str, *, is_blocked: Callable[[], bool] = lambda: False
    ) -> None:
        self._stage = stage
        self._url = url
        self._is_blocked = is_blocked
        self._connections = ExitStack()
        self._holds = Holds()
        # What was worked off since the last line, of the kinds that the lines do not tell of.
        self._ended: Counter[str] = Counter()
        self._signed = self._lined = time.monotonic()

    def __enter__(self) -> Self:
        for name in self._stage.signs:
            self._connections.enter_context(connect(self._url, connection_name("work", name)))
        return self

    def __exit__(self, *_: object) -> None:
        self._connections.close()

    def tick(self) -> None:
        """Do what is due."""
        now = time.monotonic()
        if now - self._signed >= _SIGN_S:
            self._signed = now
            self._sign()
        # Without a worker that lives nobody counts.
        if self._stage.signs and now - self._lined >= _LINE_S:
            self._lined = now
            ended = {kind: minute(claimed=n, succeeded=n) for kind, n in self._ended.items()}
            if self._is_counted():
                ended = {}
            self._stage.past.lines(1, {**ended, **self._stage.line}, upto=0)
            self._ended.clear()
        if not self._is_blocked():
            self._stage.renew()
            self._obey()
            self._keep_house()
            self._mend()
            self._try_canaries()
            self._work_off()

    def _is_counted(self) -> bool:
        """Whether a worker counts what is worked off: one that somebody has started beside it."""
        age_s = minute_stats.age_s(self._stage.session)
        self._stage.session.commit()
        return age_s is not None and age_s < 2 * minute_stats.EVERY_S

    def _mend(self) -> None:
        """Let the kind that fails rest while it is held, and go well once it was seen to."""
        stage, kind = self._stage, self._stage.fails
        if kind is None:
            return
        switch = control.in_force(stage.session).latest.get(control.scope_of(kind))
        over = (Status.SUCCEEDED, Status.CANCELLED)
        alike = sa.select(Job.id).where(
            Job.kind == kind, Job.status.not_in(over), Job.error_fingerprint.is_not(None)
        )
        is_left = stage.session.scalar(alike.limit(1)) is not None
        stage.session.commit()
        if switch and switch.stops:
            stage.line = {**stage.line, kind: minute(enqueued=60)}
        elif switch or not is_left:
            stage.fails = None
            stage.line = {**stage.line, kind: EVENING[kind]}
            stage.works += (kind,)

    def _sign(self) -> None:
        for name, sign in self._stage.signs.items():
            scope = f"worker:{name}"
            self._stage.past.event(Event.WORKER_SEEN, scope, 0, actor=scope, data=sign)
        if self._stage.flows:
            self._stage.flow(0)

    def _obey(self) -> None:
        """End what somebody has asked to stop, as a handler does at its next check."""
        stage = self._stage
        asked = sa.select(Job.id).where(
            Job.id.in_([claim.id for claim, _ in stage.leases]),
            Job.cancel_requested_at.is_not(None),
        )
        ids = set(stage.session.scalars(asked))
        stage.finish([claim for claim, _ in stage.leases if claim.id in ids], "cancel")
        stage.leases = [lease for lease in stage.leases if lease[0].id not in ids]

    def _try_canaries(self) -> None:
        session = self._stage.session
        for operation_id in operations.open_ones(session):
            with suppress(OperationBusy, OperationNotFound):
                operations.advance(session, operation_id, actor=_HOUSEKEEPING)
            session.commit()

    def _keep_house(self) -> None:
        """Take back lost leases, lift what has run out, and carry out the holds on kinds."""
        session = self._stage.session
        transitions.expire(session, actor=_SWEEPER, backoff=Backoff())
        lift_expired(session, actor=_HOUSEKEEPING)
        session.commit()
        controls, now = control.in_force(session), database_now(session)
        self._holds.tick(session, controls, now, actor=_HOUSEKEEPING)
        session.commit()

    def _work_off(self) -> None:
        stage = self._stage
        switches = control.in_force(stage.session)
        kinds = tuple(kind for kind in stage.works if kind not in switches.held_kinds)
        slots = sum(sign["slots"] for sign in stage.signs.values()) - len(stage.leases)
        if not switches.pause and kinds and slots > 0:
            holder = Holder(f"worker:{next(iter(stage.signs))}", lease_s=LEASE_S, only=kinds)
            claims = stage.claim(holder, slots * stage.pace)
            stage.finish(claims, "succeed")
            self._ended.update(claim.kind for claim in claims)
        stage.session.commit()
