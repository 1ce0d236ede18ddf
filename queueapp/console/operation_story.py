"""An operation told to people: where it stands, what its verb does, how it is confirmed. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from queueapp.console import preferences
from queueapp.console.filters import plural, stamp
from queueapp.jobs.operations import (
    ASKED_TO_STOP,
    CHANGED,
    FOR_ADMINS,
    UNDO,
    VERBS,
    Operation,
    Trial,
)
from queueapp.jobs.status import Reason, Status
from queueapp.jobs.why.words import elapsed

# Up to so many jobs one click confirms; for more, their number is to be typed.
CLICK = 1_000


@dataclass(frozen=True)
class Words:
    """A verb on its button, while it is at work, and of what it has done."""

    button: str
    doing: str
    done: str
    effect: str


WORDS = {
    "retry": Words(
        "Retry", "Retrying", "retried",
        "They are due again at once, with all attempts anew. What happened so far stays in the"
        " ledger.",
    ),
    "cancel": Words(
        "Cancel", "Cancelling", "cancelled",
        "A waiting job never runs. A running one is asked to stop at its next check; it is never"
        " killed. Where a handler never checks, stop its worker: after its grace the job ends"
        " cancelled.",
    ),
    "hold": Words("Hold", "Holding", "held", "They keep their place, and nothing starts them."),
    "unhold": Words("Unhold", "Unholding", "unheld", "They are back in the line."),
    "reschedule": Words(
        "Reschedule", "Rescheduling", "rescheduled",
        "Their place in the line changes. Spread, each has a moment of its own within that time.",
    ),
    "run-now": Words(
        "Run now", "Running now", "made due", "They are due at once; their priority stays."
    ),
    "purge": Words(
        "Purge", "Purging", "purged",
        "Their rows go for good, with payload, result and last error: there is no undo. What"
        " happened to them stays in the ledger for as long as that is kept, with the error message"
        " and traceback of each attempt. Their idempotency keys make new jobs from then on.",
    ),
    UNDO: Words("Put back", "Putting back", "put back", ""),
}  # fmt: skip

# What the undo of each verb comes to.
_BACK = {
    "cancel": "They wait again, or are held again, at their former place in the line. Those whose"
    " time has come run as soon as a worker is free.",
    "hold": "They are back in the line, where they stood.",
    "unhold": "They are held again; nothing starts them.",
    "reschedule": "They have their former due time and priority again.",
    "run-now": "They wait for their former due time again.",
}
_ASKED = "What was asked to stop ends at its next check, and as it would if it never checks."
_ONLY_UNCHANGED = "Jobs to which anything has happened since stay as they are."

# Why a verb leaves a job alone in a status that it can move.
_NOT_ALL = {
    ("cancel", Status.RUNNING): "running, and asked to stop already",
    ("unhold", Status.HELD): "held with their kind: lift that hold instead",
    ("run-now", Status.QUEUED): "queued, and due already",
    (UNDO, CHANGED): "changed since, or gone",
    (UNDO, ASKED_TO_STOP): "asked to stop while they ran, which cannot be taken back",
}


@dataclass(frozen=True)
class Story:
    """``headline`` and what to know beside it; ``tone`` as in the style sheet, or nothing."""

    headline: str
    sentence: str
    tone: str = ""


def story_of(made: Operation, trials: Sequence[Trial]) -> Story:
    """Where the operation stands."""
    words, jobs = WORDS[made.verb], jobs_of(made)
    if made.state in ("counting", "planned"):
        return _asked(made)
    if made.state == "canary":
        return Story(f"Trying {plural(made.moved, 'job')} first, of {jobs}", _open(made, trials))
    if made.state == "applying":
        passed = _passed(made)
        return Story(f"{words.doing} {jobs}: {made.moved:,} done", passed)
    if made.state == "stopped":
        return _ended_early(made)
    return Story(f"Done: {_what_was_done(made)}", _done(made), "good")


def _what_was_done(made: Operation) -> str:
    """``3 jobs cancelled, 2 running ones asked to stop``."""
    said = (
        []
        if made.stopping == made.moved != 0
        else [f"{plural(made.moved - made.stopping, 'job')} {WORDS[made.verb].done}"]
    )
    if made.stopping:
        said.append(f"{plural(made.stopping, 'running job')} asked to stop")
    return ", ".join(said)


def _ended_early(made: Operation) -> Story:
    words, jobs = WORDS[made.verb], jobs_of(made)
    if said := stopped_canary(made):
        return Story(f"{said[:1].upper()}{said[1:]}", _stopped(made), "careful")
    if not made.moved:
        return Story(f"Left as it is: none of {jobs} {words.done}", _stopped(made))
    return Story(f"Stopped: {made.moved:,} of {jobs} {words.done}", _stopped(made), "careful")


def stopped_canary(made: Operation) -> str | None:
    """What stopped it, if its first jobs did: ``canary stopped: 2 of 5 succeeded``."""
    canary = made.canary
    if made.state != "stopped" or canary is None or canary.passed is not False:
        return None
    return f"canary stopped: {canary.succeeded} of {len(canary.jobs)} succeeded"


def jobs_of(made: Operation) -> str:
    """How many jobs it was planned for: ``10,000 or more jobs``."""
    if made.counts.whole:
        return plural(made.counts.total, "job")
    return f"{made.counts.total:,} or more jobs"


def must_type(made: Operation) -> bool:
    """Whether the number of jobs has to be typed before it begins."""
    is_large = made.counts.total > CLICK or made.is_of_everything
    return made.state == "planned" and is_large and made.counts.total > 0


def word_to_type(made: Operation) -> str | None:
    """The word that has to be typed: for every job there is, and where there is no undo."""
    is_asked = made.state == "planned" and made.counts.total > 0
    if not is_asked or not (made.is_of_everything or made.verb in FOR_ADMINS):
        return None
    return WORDS[made.verb].button.lower()


def others_of(made: Operation) -> list[str]:
    """The jobs of the filter that stay as they are: how many, and why."""
    more, verb = "" if made.others.whole else "+", made.verb
    numbers = {name: f"{number:,}{more}" for name, number in made.others.by_status.items()}
    special = {name: _NOT_ALL[verb, name] for name in numbers if (verb, name) in _NOT_ALL}
    told = [f"{numbers[name]} {why}" for name, why in special.items()]
    rest = [f"{number} {name}" for name, number in numbers.items() if name not in special]
    if rest:
        able = " or ".join(VERBS[verb].statuses)
        told.append(f"{', '.join(rest)}: only {able} ones can be {WORDS[verb].done}")
    return told


def place_of(made: Operation) -> str | None:
    """Where in the line a reschedule moves its jobs."""
    how = made.how
    if made.verb != "reschedule":
        return None
    parts = [f"priority {how['priority']}"] if how.get("priority") is not None else []
    if how.get("available_at"):
        parts.append(f"due {_stamp(how['available_at'])}")
    if how.get("delay_s") is not None:
        parts.append(f"due {elapsed(how['delay_s'])} after each is moved")
    if how.get("spread_s"):
        parts.append(f"spread over {elapsed(how['spread_s'])}")
    return ", ".join(parts)


def _asked(made: Operation) -> Story:
    words, jobs = WORDS[made.verb], jobs_of(made)
    if made.state == "counting":
        return Story(f"{words.button}: {made.counts.total:,} jobs counted so far", _counting(made))
    return Story(f"{words.button} {jobs}?", f"{_effect(made)} {_ahead(made)}".strip())


def _counting(made: Operation) -> str:
    seen = ""
    if made.undoes is None and made.upto:
        seen = f" {100 * made.counted_to // made.upto} % of the table is looked through."
    return f"Nothing is changed before all are counted.{seen}"


def _effect(made: Operation) -> str:
    if place := place_of(made):
        return f"They move in the line: {place}."
    if made.undoes is None:
        return WORDS[made.verb].effect
    return f"{_BACK[made.how['verb']]} {_ONLY_UNCHANGED}"


def _ahead(made: Operation) -> str:
    if made.canary is None:
        return ""
    terms = made.canary.terms
    return (
        f"The first {terms.first} go ahead; the rest follows by itself if {terms.needed} of them"
        f" succeed within {terms.wait_s / 60:.0f} minutes, and else stays as it is."
    )


def _open(made: Operation, trials: Sequence[Trial]) -> str:
    if made.canary is None or not made.is_on_trial:
        return "Not all of the first jobs have gone ahead yet."
    succeeded = sum(trial.fate == "succeeded" for trial in trials)
    return (
        f"{succeeded} of {len(trials)} have succeeded, {made.canary.terms.needed} are needed. A"
        " worker decides; this page may be closed."
    )


def _passed(made: Operation) -> str:
    if made.canary is None:
        return "In batches of 500, beside the workers."
    return (
        f"{made.canary.succeeded} of the first {len(made.canary.jobs)} have succeeded, so the rest"
        " follows. A worker goes on with it; this page may be closed."
    )


def _stopped(made: Operation) -> str:
    canary = made.canary
    if canary is not None and canary.passed is False:
        late = made.end_reason == Reason.CANARY_TIMED_OUT
        when = f" within {canary.terms.wait_s / 60:.0f} minutes" if late else ""
        return (
            f"{canary.terms.needed} of the first {len(canary.jobs)} had to succeed{when}. The rest"
            " stays as it was."
        )
    why = f": {made.end_reason}" if made.end_reason else ""
    kept = " What was done stays done; plan it again for the rest." if made.moved else ""
    return f"By {made.changed_by}{why}.{kept}"


def _done(made: Operation) -> str:
    if not made.skipped:
        return _ASKED if made.stopping else ""
    were = "was" if made.skipped == 1 else "were"
    return f"{made.skipped:,} {were} left alone: changed since the plan, or locked just then."


def _stamp(at: datetime) -> str:
    return stamp(at, zone=preferences.present().tz)
