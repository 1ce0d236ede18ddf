"""Everything that can be done through console and API, each in a scene in which it works."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from flask.testing import FlaskClient
from sqlalchemy.orm import Session
from werkzeug.datastructures import MultiDict

from queueapp.auth import Role
from queueapp.jobs import control, operations, queries
from queueapp.jobs.queries import JobFilter
from queueapp.jobs.status import Event, Status
from tests.factories import make_job

WORKER = "worker:web-1:7:aaaaaa"
TOLD = {"slots": 4, "lost": 0, "kinds": ["demo.echo"], "lease_s": 60, "host": "web-1"}
WHY = {"reason": "because"}
ANA: dict[str, Any] = {"actor": "user:ana", "reason": "because"}
ACTORS = frozenset({Role.OPERATOR, Role.ADMIN})
ADMINS = frozenset({Role.ADMIN})
PRODUCERS = ACTORS | {Role.PRODUCER}


@dataclass(frozen=True)
class Act:
    """One deed in its scene. ``ask``: the page whose form it is; None: all fields are here.

    ``path`` and ``api``: where it is sent to, None where there is no such way.
    """

    path: str | None = None
    form: Mapping[str, Any] = field(default_factory=dict)
    ask: str | None = None
    api: str | None = None
    json: Any = field(default_factory=dict)

    def filled(self, page: str) -> MultiDict[str, Any]:
        """The form of ``page`` as somebody fills it in."""
        forms = re.findall(r'<form[^>]*action="([^"]+)"[^>]*>(.*?)</form>', page, re.DOTALL)
        [found] = [within for to, within in forms if html.unescape(to) == self.path]
        hidden = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', found)
        data = MultiDict([(name, html.unescape(value)) for name, value in hidden])
        data.update(self.form)
        return data


@dataclass(frozen=True)
class Deed:
    """What makes its scene (which is then committed), who may do it, and whether it changes much.

    ``changes`` False: in this scene there is nothing left to be changed by it.
    """

    scene: Callable[[Session], Act]
    may: frozenset[Role] = ACTORS
    on_pages: bool = True
    in_api: bool = True
    changes: bool = True

    def made(self, session: Session) -> Act:
        act = self.scene(session)
        session.commit()
        return act


def _job(verb: str, status: Status, *, asks: str = "", **fields: Any) -> Callable[[Session], Act]:
    """A verb of one job that is asked for on a page of its own."""
    form, json = fields.pop("form", {}), fields.pop("json", {})

    def scene(session: Session) -> Act:
        path = f"/jobs/{make_job(session, status, **fields).id}/{verb}"
        return Act(path, form, path if asks else None, f"/api{path}", json)

    return scene


def _ticked(verb: str, **form: str) -> Callable[[Session], Act]:
    def scene(session: Session) -> Act:
        first, second = (make_job(session, Status.FAILED).id for _ in range(2))
        return Act("/jobs/bulk", form, f"/jobs/bulk?verb={verb}&id={first}&id={second}")

    return scene


def _release(session: Session) -> Act:
    job = make_job(session, Status.RUNNING)
    ask = f"/workers/release?worker={job.locked_by}"
    json = {"claimed_at": job.claimed_at and job.claimed_at.isoformat()}
    api = f"/api/jobs/{job.id}/release"
    return Act("/workers/release", {"alive": "yes", **WHY}, ask, api, json)


def _release_all(session: Session) -> Act:
    job = make_job(session, Status.RUNNING)
    at = job.claimed_at and job.claimed_at.isoformat()
    json = {"claims": [{"job_id": job.id, "claimed_at": at}], "alive": True, **WHY}
    return Act(api=f"/api/workers/{job.locked_by}/release", json=json)


def _drain(session: Session) -> Act:
    control.record(session, Event.WORKER_SEEN, scope=WORKER, actor=WORKER, data=TOLD)
    ask = f"/workers/drain?worker={WORKER}"
    return Act("/workers/drain", WHY, ask, f"/api/workers/{WORKER}/drain", WHY)


def _pause(_: Session) -> Act:
    return Act("/pause", WHY, "/pause", "/api/queue/pause", WHY)


def _resume(session: Session) -> Act:
    control.pause(session, **ANA)
    return Act("/resume", {}, "/resume", "/api/queue/resume")


def _hold_kind(_: Session) -> Act:
    path = "/kinds/demo.echo/hold"
    return Act(path, WHY, path, f"/api{path}", WHY)


def _unhold_kind(session: Session) -> Act:
    control.hold_kind(session, "demo.echo", **ANA)
    path = "/kinds/demo.echo/unhold"
    return Act(path, {}, path, f"/api{path}")


def _plan(verb: str) -> Callable[[Session], Act]:
    def scene(session: Session) -> Act:
        make_job(session, Status.FAILED)
        form = {"verb": verb, "status": "failed", **WHY}
        json = {"verb": verb, "filter": {"status": ["failed"]}, **WHY}
        return Act("/operations", form, api="/api/operations", json=json)

    return scene


def _plan_for_cause(session: Session) -> Act:
    job_id = make_job(session, Status.FAILED).id
    cause = queries.get_job(session, job_id).error_fingerprint
    return Act(f"/errors/{cause}", {"verb": "retry", **WHY})


def _operation(verb: str, what: str = "retry", **form: str) -> Callable[[Session], Act]:
    def scene(session: Session) -> Act:
        make_job(session, Status.FAILED)
        # Of what is not committed a plan knows nothing.
        session.commit()
        found = operations.survey(session, what, JobFilter(status=(Status.FAILED,)))
        made = operations.plan(session, found, how={}, **ANA)
        path = f"/operations/{made.id}"
        return Act(f"{path}/{verb}", form, api=f"/api{path}/{verb}")

    return scene


def _undo(session: Session) -> Act:
    make_job(session, Status.QUEUED)
    session.commit()
    found = operations.survey(session, "cancel", JobFilter(status=(Status.QUEUED,)))
    made = operations.plan(session, found, how={}, **ANA)
    session.commit()
    while not made.is_over:
        made = operations.step(session, made.id, actor="user:ana", via="console")
        session.commit()
    path = f"/operations/{made.id}/undo"
    return Act(path, WHY, None, f"/api{path}", WHY)


def _create(_: Session) -> Act:
    return Act(api="/api/jobs", json={"kind": "demo.echo", "payload": {"message": "x"}})


def _create_many(_: Session) -> Act:
    return Act(api="/api/jobs/bulk", json=[{"kind": "demo.echo", "payload": {"message": "x"}}])


LATER = datetime.now(UTC) + timedelta(hours=1)
DEEDS: dict[str, Deed] = {
    "retry": Deed(_job("retry", Status.FAILED)),
    "run-now": Deed(_job("run-now", Status.QUEUED, available_at=LATER)),
    "hold": Deed(_job("hold", Status.QUEUED, form=WHY, json=WHY)),
    "unhold": Deed(_job("unhold", Status.HELD)),
    "cancel": Deed(_job("cancel", Status.QUEUED)),
    "reschedule": Deed(
        _job("reschedule", Status.QUEUED, form={"minutes": "5"}, json={"priority": 7})
    ),
    "clone": Deed(_job("clone", Status.FAILED, asks="form"), may=ADMINS),
    "purge": Deed(_job("purge", Status.FAILED, asks="form", form=WHY, json=WHY), may=ADMINS),
    "ticked": Deed(_ticked("retry"), in_api=False),
    "ticked, to purge": Deed(_ticked("purge", **WHY), may=ADMINS, in_api=False),
    "release": Deed(_release),
    "release all": Deed(_release_all, on_pages=False),
    "drain": Deed(_drain),
    "pause": Deed(_pause),
    "resume": Deed(_resume),
    "hold a kind": Deed(_hold_kind),
    "unhold a kind": Deed(_unhold_kind),
    "plan": Deed(_plan("retry")),
    "plan a purge": Deed(_plan("purge"), may=ADMINS),
    "plan for a cause": Deed(_plan_for_cause, in_api=False),
    "apply": Deed(_operation("apply")),
    "apply a purge": Deed(_operation("apply", "purge", word="purge"), may=ADMINS),
    "stop": Deed(_operation("stop")),
    "count": Deed(_operation("count"), in_api=False, changes=False),
    "undo": Deed(_undo),
    "create": Deed(_create, may=PRODUCERS, on_pages=False),
    "create many": Deed(_create_many, may=PRODUCERS, on_pages=False),
}


def sent(client: FlaskClient, act: Act, way: Mapping[str, str], page: str | None) -> Any:
    """Send the form as a browser or as the page's script does; ``page``: the one that asked."""
    assert act.path is not None
    data = act.filled(page) if page else MultiDict(act.form)
    return client.post(act.path, data=data, headers=way)
