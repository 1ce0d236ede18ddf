"""An operation told to people: where it stands, what its verb does, how it is confirmed. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from queueapp.console.filters import plural
from queueapp.jobs.operations import Operation, Trial
from queueapp.jobs.queries import JobFilter
from queueapp.jobs.queries.filters import written_filter
from queueapp.jobs.status import Reason

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
        "They run again at once, with all attempts anew. What happened so far stays in the ledger.",
    ),
    "cancel": Words(
        "Cancel", "Cancelling", "cancelled",
        "A waiting job never runs. A running one is asked to stop at its next check; it is never"
        " killed.",
    ),
    "hold": Words("Hold", "Holding", "held", "They keep their place, and nothing starts them."),
    "unhold": Words("Unhold", "Unholding", "unheld", "They are back in the line."),
    "reschedule": Words(
        "Reschedule", "Rescheduling", "rescheduled", "Their place in the line changes."
    ),
    "run-now": Words(
        "Run now", "Running now", "made due", "They are due at once; their priority stays."
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Story:
    """``headline`` and what to know beside it; ``tone`` as in the style sheet, or nothing."""

    headline: str
    sentence: str
    tone: str = ""


def story_of(made: Operation, trials: Sequence[Trial]) -> Story:
    """Where the operation stands."""
    words, jobs = WORDS[made.verb], jobs_of(made)
    if made.state == "planned":
        return Story(f"{words.button} {jobs}?", f"{words.effect} {_ahead(made)}".strip())
    if made.state == "canary":
        return Story(f"Trying {plural(made.moved, 'job')} first, of {jobs}", _open(made, trials))
    if made.state == "applying":
        passed = _passed(made)
        return Story(f"{words.doing} {jobs}: {made.moved:,} done", passed)
    if made.state == "stopped" and not made.moved:
        return Story(f"Left as it is: none of {jobs} {words.done}", _stopped(made))
    if made.state == "stopped":
        return Story(f"Stopped: {made.moved:,} of {jobs} {words.done}", _stopped(made), "careful")
    return Story(f"Done: {plural(made.moved, 'job')} {words.done}", _done(made), "good")


def jobs_of(made: Operation) -> str:
    """How many jobs it was planned for: ``10,000 or more jobs``."""
    if made.counts.whole:
        return plural(made.counts.total, "job")
    return f"{made.counts.total:,} or more jobs"


def must_type(made: Operation) -> bool:
    """Whether the number of jobs has to be typed before it begins."""
    return made.state == "planned" and (not made.counts.whole or made.counts.total > CLICK)


def filter_of(where: JobFilter) -> list[tuple[str, str]]:
    """The filter as names and values."""
    written = written_filter(where)
    return [(name.replace("_", " "), _text(value)) for name, value in written.items()]


def list_of(where: JobFilter) -> dict[str, object] | None:
    """The parameters of the list of just these jobs; None where no list can be narrowed so."""
    names = {
        "status": "status", "kind": "kind", "producer": "producer", "priority": "priority",
        "fingerprint": "fingerprint", "idempotency_key": "key",
    }  # fmt: skip
    written = written_filter(where)
    if not written.keys() <= names.keys():
        return None
    return {names[name]: value for name, value in written.items()}


def _text(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join("any" if one is None else str(one) for one in value)
    return str(value)


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
            f"{canary.succeeded} of the first {len(canary.jobs)} succeeded{when};"
            f" {canary.terms.needed} were needed. The rest stays as it was."
        )
    why = f": {made.end_reason}" if made.end_reason else ""
    kept = " What was done stays done; plan it again for the rest." if made.moved else ""
    return f"By {made.changed_by}{why}.{kept}"


def _done(made: Operation) -> str:
    if not made.skipped:
        return ""
    were = "was" if made.skipped == 1 else "were"
    return f"{made.skipped:,} {were} left alone: changed since the plan, or locked just then."
