"""The numbers of the queue for Prometheus: the database's, whichever process is asked."""

from __future__ import annotations

from flask import Blueprint, Flask, Response

from queueapp import judgement, shared_readings
from queueapp.api.contract import Answer, Example, Part, contract
from queueapp.api.exposition import CONTENT_TYPE, exposition
from queueapp.application import this_app
from queueapp.auth import Permission, permits
from queueapp.extensions import db
from queueapp.jobs.metrics import FAMILIES, Measured, Scrape, measure, samples
from queueapp.judgement import Look
from queueapp.schema import schema_head
from queueapp.shared import OLD_S, Shared, Snapshot
from queueapp.version import VERSION

bp = Blueprint("api_metrics", __name__)

# For each of the two readings: both of them are shorter than the ten seconds that Prometheus waits.
WAIT_S = 4.0


def init_app(app: Flask) -> None:
    """Let ``app`` share what is measured."""
    app.extensions["queue_metrics"] = shared_readings.share(app, lambda: _measure(app))


def shared(app: Flask) -> Shared[Measured]:
    """What was measured, shared by all of the process."""
    found: Shared[Measured] = app.extensions["queue_metrics"]
    return found


@bp.get("/metrics")
@permits(Permission.READ)
@contract(
    Part.QUEUE,
    {
        200: Answer(
            "The numbers; also while the database does not answer.",
            schema={"type": "string"},
            media_type="text/plain",
        )
    },
    asks_database=False,
    more="Without the database `queue_up` is 0 and `queue_verdict` 3, and no other number of the"
    " queue is told.",
    examples=(Example("What does Prometheus see?"),),
)
def metrics() -> Response:
    """Tell the numbers of the queue to Prometheus, in its text format."""
    app = this_app()
    scrape = _scrape(
        judgement.present(app, wait_s=WAIT_S), shared(app).get(wait_s=WAIT_S), schema_head()
    )
    return Response(exposition(FAMILIES, samples(scrape)), content_type=CONTENT_TYPE)


def _scrape(look: Look, measured: Snapshot[Measured], head: str | None) -> Scrape:
    """What still says something of now; what was measured not once a try has come to nothing."""
    ages = [look.age_s] if look.facts else []
    ages += [measured.age_s] if measured.value else []
    return Scrape(
        verdict=look.verdict,
        facts=look.facts if look.age_s <= OLD_S else None,
        measured=None if measured.failure else measured.present,
        age_s=max(ages, default=None),
        version=VERSION,
        head=head,
    )


def _measure(app: Flask) -> Measured:
    with app.app_context(), db.engine.connect() as connection:
        return measure(connection)
