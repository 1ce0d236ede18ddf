"""Keys, words, and what each verdict means: what there is to know at night, on one page."""

from __future__ import annotations

from flask import Response, current_app

from queueapp.auth import Permission, permits
from queueapp.config import Settings
from queueapp.console.answers import render
from queueapp.console.banner import TONES
from queueapp.console.blueprint import bp
from queueapp.console.glossary import NAMES, STATUSES, VERBS
from queueapp.jobs.verdict import RULES, thresholds
from queueapp.jobs.verdict.catalogue import ENDS


@bp.get("/help")
@permits(Permission.READ)
def help_page() -> Response:
    """Show keys, words, and the verdicts with their next steps."""
    settings: Settings = current_app.extensions["queue_settings"]
    body = render(
        "help",
        panel=False,
        statuses=STATUSES,
        verbs=VERBS,
        names=NAMES,
        rules=RULES,
        ends=ENDS.items(),
        tones=TONES,
        thresholds=[
            (name, thresholds.shown(name, value), thresholds.ABOUT[name])
            for name, value in vars(settings.verdict).items()
        ],
    )
    return Response(body, mimetype="text/html")
