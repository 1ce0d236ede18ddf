"""Clone one job: asked first, with its kind and payload, and done once a question."""

from __future__ import annotations

import re

from flask import Response, request, url_for
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response as AnyResponse

from queueapp import handlers
from queueapp.api.intake import intake
from queueapp.auth import Permission, permits
from queueapp.console import back, stops
from queueapp.console.actions import REASON_LENGTH, done_with, how_it_is_done
from queueapp.console.appearance import shown_status
from queueapp.console.blueprint import bp
from queueapp.console.forms import shown
from queueapp.console.job import EVENTS, bodies_of, kin_of
from queueapp.console.losses import dangers_of
from queueapp.console.outcomes import Cloned
from queueapp.errors import BadRequest, QueueError
from queueapp.extensions import db
from queueapp.jobs import queries
from queueapp.redaction import MARK

_ID = re.compile(r"[0-9]{1,19}", re.ASCII)


class ClonedMeanwhile(QueueError):
    """There is a clone that the question did not know of: a double click, or somebody else's."""

    code = "cloned_meanwhile"
    status = 409
    title = "It has been cloned already"


@bp.get("/jobs/<int:job_id>/clone")
@permits(Permission.ADMIN)
def ask_clone(job_id: int) -> Response:
    """Ask before making a new job like this one."""
    controls, session = stops.known(), db.session()
    queries.bound_reads(session)
    now = queries.database_now(session)
    job = queries.get_head(session, job_id)
    clones = _clones(session, job_id)
    return shown(
        "clone",
        as_of=now,
        job=job,
        status=shown_status(job, now),
        payload=bodies_of(session, job).payload,
        redacted=MARK,
        dangers=dangers_of(session, [job]),
        stops=stops.Stops.of(controls, {job.kind}),
        clones=clones,
        seen=clones[-1] if clones else 0,
        back=back.checked(
            request.args.get("next") or back.referrer(), url_for(".job", job_id=job_id)
        ),
        reason_length=REASON_LENGTH,
    )


@bp.post("/jobs/<int:job_id>/clone")
@permits(Permission.ADMIN)
def clone(job_id: int) -> AnyResponse:
    """Make the new job, unless there is a clone that the question has not shown."""
    seen, session, how = request.form.get("seen", ""), db.session(), how_it_is_done()
    if not _ID.fullmatch(seen):
        raise BadRequest("the form does not say which clones it showed: open it again")

    def refuse_if_cloned() -> None:
        newer = [one for one in _clones(session, job_id) if one > int(seen)]
        if newer:
            raise ClonedMeanwhile(
                f"nothing was cloned: job {newer[-1]} is a clone of it that your question did not"
                " show. Look again",
            )

    made = intake().create(
        session,
        lambda ceiling: handlers.clone(
            session, job_id, ceiling=ceiling, unless=refuse_if_cloned, **how
        ),
        keyed=False,
    )
    session.commit()
    return done_with(Cloned(made.id), url_for(".job", job_id=made.id))


def _clones(session: Session, job_id: int) -> list[int]:
    return kin_of(queries.latest_events_of(session, job_id, limit=EVENTS)).clones
