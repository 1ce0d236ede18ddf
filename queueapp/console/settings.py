"""How one reader wants to see the console; and for admins, which settings the server runs with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

from flask import Response, current_app, redirect, request, url_for
from werkzeug.wrappers import Response as AnyResponse

from queueapp.auth import Permission, current_principal, permits
from queueapp.config import Settings
from queueapp.console import preferences
from queueapp.console.blueprint import bp
from queueapp.console.forms import FRESH, Form, Unfit, refilled, shown
from queueapp.jobs.verdict import Thresholds, thresholds
from queueapp.redaction import MARK, for_reader
from queueapp.spelling import closest

YEAR_S = 365 * 86_400
LONGEST_ZONE = 60
_UNITS = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))
NAMES = {
    "density": {"normal": "normal", "compact": "compact", "roomy": "roomy"},
    "refresh": {
        "page": "as each page has it, every 2 to 15 seconds",
        "10": "every 10 seconds at most",
        "30": "every 30 seconds at most",
        "60": "once a minute at most",
        "off": "off, until you ask for it",
    },
    "times": {"ago": "how long ago", "both": "how long ago, and by the clock"},
    "theme": {"auto": "as the system has it", "light": "light", "dark": "dark"},
}


@dataclass(frozen=True)
class InForce:
    """One setting of the server. ``value``: as the environment would say it."""

    name: str
    value: str
    is_default: bool
    about: str


@bp.get("/settings")
@permits(Permission.READ)
def settings() -> Response:
    """Show what the reader has chosen, and to admins what the server runs with."""
    return _page(preferences.present())


@bp.post("/settings")
@permits(Permission.READ)
def choose() -> AnyResponse:
    """Keep what the reader chooses, in cookies of this browser."""
    wanted = request.form.get("zone", "").strip() or preferences.UTC_NAME
    zone = preferences.zone_called(wanted)
    chosen = preferences.read({**request.form.to_dict(), "zone": zone or ""})
    if zone is None:
        error = Unfit("zone", _no_zone(wanted))
        return _page(chosen, refilled(error))
    answer = redirect(url_for(".settings", saved=1), 303)
    for one in fields(preferences.Preferences):
        answer.set_cookie(
            one.name,
            getattr(chosen, one.name),
            max_age=YEAR_S,
            samesite="Lax",
            secure=request.is_secure,
        )
    return answer


def _no_zone(name: str) -> str:
    meant = closest(name, preferences.zones())
    hint = f". Did you mean {meant}?" if meant else ""
    return f"there is no time zone “{name[:LONGEST_ZONE]}”; nothing is changed{hint}"


def _page(chosen: preferences.Preferences, form: Form = FRESH) -> Response:
    return shown(
        "settings",
        form,
        chosen=chosen,
        zones=preferences.zones(),
        names=NAMES,
        saved="saved" in request.args,
        hidden=_hidden(),
        sees_hidden=not for_reader().rules,
        mark=MARK,
        in_force=list(_in_force()) if current_principal().may(Permission.ADMIN) else None,
    )


def _hidden() -> dict[str, list[str]]:
    """What only admins see of payloads and results, by whose: at any depth, and at one place."""
    here: Settings = current_app.extensions["queue_settings"]
    found: dict[str, list[str]] = {}
    for kind, path in here.redact:
        # That is how somebody says that nothing is hidden.
        if (kind, path) != ("none", ("none",)):
            found.setdefault(kind, []).append(".".join(path))
    return dict(sorted(found.items()))


def _in_force() -> Iterator[InForce]:
    here: Settings = current_app.extensions["queue_settings"]
    for one in fields(Settings):
        meta, value = one.metadata, getattr(here, one.name)
        is_default = value == meta["read"](meta["default"])
        shown = ("set" if value else "not set") if meta["secret"] else written(value)
        yield InForce(meta["env"], shown, is_default, meta["about"])


def written(value: Any) -> str:
    """A setting's value as the environment would say it; nothing for an empty one."""
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, Thresholds):
        return " ".join(f"{n}={thresholds.shown(n, v)}" for n, v in vars(value).items())
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    # Every setting with a fraction is a duration.
    return _duration(value) if isinstance(value, float) else str(value)


def _duration(seconds: float) -> str:
    for unit, length in _UNITS:
        if seconds and seconds % length == 0:
            return f"{seconds / length:.0f}{unit}"
    return f"{seconds:g}s"
