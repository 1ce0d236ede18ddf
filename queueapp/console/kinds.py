"""Kind by kind: what waits, runs and fails, what the last hour brought, and what is on hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from flask import Response, current_app, request, url_for

from queueapp import handlers
from queueapp.auth import Permission, permits
from queueapp.config import Settings
from queueapp.console import banner
from queueapp.console.answers import answer, in_history
from queueapp.console.blueprint import bp
from queueapp.console.filters import UNKNOWN, count
from queueapp.console.inventory import NUMBERS, Look, look_at_kinds, shared_kinds
from queueapp.console.readings import Reading, tried
from queueapp.console.unread import problems_of
from queueapp.errors import PageNotFound
from queueapp.extensions import db
from queueapp.jobs import queries
from queueapp.jobs.control import Switch
from queueapp.jobs.kinds import FAILED_LIMIT, Tally
from queueapp.jobs.names import KIND
from queueapp.jobs.presence import Worker
from queueapp.jobs.queries import COUNT_LIMIT, JobFilter, Pulse
from queueapp.jobs.verdict import Facts
from queueapp.jobs.verdict.minutes import Minute, quantile_s
from queueapp.spelling import closest

KINDS_SHOWN = 300
# Of more, a part of the name can be asked for.
KINDS_AT_A_GLANCE = 20
WORKERS_SHOWN = 5


@dataclass(frozen=True)
class Row:
    """One kind as the templates need it. ``numbers``: those of its jobs, bounded, in words.

    ``minute``: what the last hour's statistics say of it, None: nothing was counted; ``waits`` and
    ``runs``: how long half of them and 95 of 100 took at most, in seconds.
    """

    kind: str
    about: str
    owner: str | None
    docs: str | None
    is_known: bool
    hold: Switch | None
    numbers: Mapping[str, str]
    minute: Minute | None
    waits: tuple[float | None, float | None]
    runs: tuple[float | None, float | None]

    @property
    def failed_share(self) -> int | None:
        """How many of 100 attempts failed; None without any."""
        if self.minute is None or not self.minute.attempts:
            return None
        return round(100 * self.minute.failures / self.minute.attempts)


def kind_address(kind: str | None) -> str | None:
    """The page of a kind; None for what no kind can be called."""
    if kind is None or not KIND.fullmatch(kind):
        return None
    return url_for("console.kind", kind=kind)


def known_kind(kind: str) -> str:
    """``kind``, if a kind can be called so. Raises PageNotFound."""
    if not KIND.fullmatch(kind):
        raise PageNotFound("a kind is a lower-case letter, then at most 99 of a-z 0-9 _ . -")
    return kind


@bp.get("/kinds")
@permits(Permission.READ)
def kinds() -> Response:
    """Show every kind that is known here, or has jobs, those on hold first.

    ``name``: only those with this in their names.
    """
    look, part = look_at_kinds(), request.args.get("name", "").strip()
    problems = problems_of(request.args, ["name"])
    response = answer(
        "kinds",
        as_of=look.pulse.now,
        mark=look.mark,
        context=lambda: {"part": part, "problems": problems, **_of_all(look, part)},
        is_shared=True,
    )
    return in_history(response, lambda: url_for(".kinds", name=part or None))


@bp.get("/kinds/<kind>")
@permits(Permission.READ)
def kind(kind: str) -> Response:
    """Show one kind: its jobs, its last hour, who runs it, and whether it is on hold."""
    known_kind(kind)
    look, facts = look_at_kinds(), banner.present().facts
    mark = f"{look.mark} {[worker.name for worker in workers_of(facts, kind)]}"
    return answer(
        "kind", as_of=look.pulse.now, mark=mark, context=lambda: _of_one(look, facts, kind)
    )


def glance_at(kind: str) -> Mapping[str, Any]:
    """What is known of one kind: for questions, which must not fail over the numbers in them."""
    snapshot = shared_kinds().get()
    unread: Reading[Any] = Reading(None, snapshot.why_not)
    look = snapshot.present or Look(Pulse(datetime.now(UTC), ""), *[unread] * 6)
    row = row_of(look, kind)
    return {"row": row, **_doubt(look, banner.present().facts, row)}


def row_of(look: Look, kind: str) -> Row:
    """What is known of one kind."""
    handler, switch = handlers.find(kind), look.switch_of(kind)
    minute = look.hour.value.of(kind) if look.hour.value else None
    return Row(
        kind,
        handler.about if handler else "",
        handler.owner if handler else None,
        handler.docs if handler else None,
        handler is not None or kind in handlers.current().external_kinds,
        switch if switch and switch.stops else None,
        {name: _number(getattr(look, name), kind) for name in NUMBERS},
        minute,
        _times(minute.waits if minute else {}),
        _times(minute.runs if minute else {}),
    )


def workers_of(facts: Facts | None, kind: str) -> Sequence[Worker]:
    """The live workers that run a kind."""
    if facts is None or facts.signs is None:
        return ()
    live = facts.signs.live(facts.now)
    return [worker for worker in live if worker.slots and kind in worker.kinds]


def _of_all(look: Look, part: str) -> Mapping[str, Any]:
    names = list(dict.fromkeys(names_of(look)))
    # Kinds are written in lower case.
    rows = [row_of(look, name) for name in names if part.lower() in name]
    rows.sort(key=lambda row: (row.hold is None, row.kind))
    tallies = (getattr(look, name).value for name in NUMBERS)
    return {
        "rows": rows[:KINDS_SHOWN],
        "found": len(rows),
        "known": len(names),
        "more_known": any(tally is not None and tally.more_kinds for tally in tallies),
        "is_long": len(names) > KINDS_AT_A_GLANCE,
        "left_out": len(rows[KINDS_SHOWN:]),
        "on_hold": sum(row.hold is not None for row in rows),
        **_bounds(look),
    }


def _of_one(look: Look, facts: Facts | None, kind: str) -> Mapping[str, Any]:
    handler, policy = handlers.find(kind), handlers.current()
    settings: Settings = current_app.extensions["queue_settings"]
    row, able = row_of(look, kind), workers_of(facts, kind)
    signs = facts.signs if facts else None
    attempts = handler.max_attempts if handler else None
    timeout_s = handler.timeout_s if handler else None
    return {
        "row": row,
        **_doubt(look, facts, row),
        "switch": look.switch_of(kind),
        "moving": _moving(look, kind),
        "is_external": kind in policy.external_kinds,
        "max_attempts": policy.max_attempts if attempts is None else attempts,
        "timeout_s": settings.job_timeout if timeout_s is None else timeout_s,
        "able": able[:WORKERS_SHOWN],
        "able_more": len(able[WORKERS_SHOWN:]),
        "workers_known": signs is not None,
        # Who moves held jobs there and back.
        "any_keeper": facts is not None
        and signs is not None
        and any(not worker.is_elsewhere for worker in signs.live(facts.now)),
        **_bounds(look),
    }


def _doubt(look: Look, facts: Facts | None, row: Row) -> Mapping[str, Any]:
    """Whether a kind may be spelt wrong, and which one was meant then."""
    known = [name for name in dict.fromkeys(names_of(look)) if name != row.kind]
    is_new = not workers_of(facts, row.kind) and _is_new(look, row)
    return {"is_new": is_new, "meant": closest(row.kind, known) if is_new else None}


def _is_new(look: Look, row: Row) -> bool:
    """Whether nothing here has ever heard of a kind, as far as was looked; but for its hold."""
    if row.is_known or row.kind in set(_heard_of(look)):
        return False
    session = db.session()
    queries.bound_reads(session)
    # Those that are over are in no number of the page.
    found = tried(session, queries.list_jobs, JobFilter(kind=row.kind), limit=1)
    return found.value is not None and not found.value.rows


def _bounds(look: Look) -> Mapping[str, Any]:
    return {
        "reasons": look.reasons,
        "hour": look.hour.value,
        "count_limit": COUNT_LIMIT,
        "failed_limit": FAILED_LIMIT,
    }


def names_of(look: Look) -> Iterator[str]:
    yield from _heard_of(look)
    if look.controls.value:
        yield from look.controls.value.held_kinds


def _heard_of(look: Look) -> Iterator[str]:
    yield from (handler.kind for handler in handlers.kinds())
    yield from handlers.current().external_kinds
    for tally in (look.waiting, look.running, look.held, look.failed):
        if tally.value:
            yield from tally.value.jobs
    if look.hour.value:
        yield from look.hour.value.kinds


def _number(reading: Reading[Tally], kind: str) -> str:
    """How many jobs of a kind, as far as was looked."""
    if reading.value is None:
        return UNKNOWN
    tally, number = reading.value, reading.value.jobs.get(kind, 0)
    if number > tally.most:
        return f"{tally.most:,}+"
    return f"{count(number)}+" if tally.is_cut and number <= COUNT_LIMIT else count(number)


def _moving(look: Look, kind: str) -> tuple[int, int] | None:
    """How many jobs of a kind are held for it, and how many wait; None where not known."""
    waiting, held = look.waiting.value, look.held.value
    if waiting is None or held is None:
        return None
    return held.jobs.get(kind, 0), waiting.jobs.get(kind, 0)


def _times(histogram: Mapping[int, int]) -> tuple[float | None, float | None]:
    return quantile_s(histogram, 0.5), quantile_s(histogram, 0.95)
