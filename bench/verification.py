"""Whether every job ran once and is marked done. What fails this is no result."""

from __future__ import annotations

from collections.abc import Sequence

from bench.errors import Failed


def verify(times: Sequence[int], *, finished: int, whole: bool, slack: int = 0) -> int:
    """Check a drain after its workers have stopped; return how many jobs ran.

    ``times``: how often each job ran. ``finished``: how many the store has marked done since the
    start. ``whole``: nothing may be left over. Otherwise the drain was cut short, and at most
    ``slack`` jobs that ran may be unmarked (they will run again), or marked and not seen to run.
    Raises Failed with what is wrong.
    """
    doubled = [job for job, count in enumerate(times) if count > 1]
    if doubled:
        raise Failed(f"{len(doubled)} jobs ran more than once, the first is number {doubled[0]}")
    ran = sum(1 for count in times if count)
    if whole and ran < len(times):
        raise Failed(f"{len(times) - ran} of {len(times)} jobs never ran")
    if abs(finished - ran) > (0 if whole else slack):
        raise Failed(f"{ran} jobs ran, {finished} are marked done")
    return ran
