"""What ran, as the recorders of the workers' processes tell it."""

from __future__ import annotations

from array import array
from pathlib import Path

from bench.adaptors.recorder import PAIR


class Records:
    """The files of one drain, all in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def clear(self) -> None:
        """Forget the drain before."""
        for file in self.folder.glob("*.runs"):
            file.unlink()

    def progress(self) -> tuple[int, float]:
        """How many runs began so far, and when the first did (0.0: none has). Cheap."""
        heads = self._heads()
        return int(sum(runs for runs, _ in heads)), min((at for _, at in heads), default=0.0)

    def beginnings(self) -> list[float]:
        """When each process that has begun a job began its first."""
        return [first for _, first in self._heads()]

    def runs(self, jobs: int) -> tuple[list[int], list[float]]:
        """How often each of ``jobs`` ran, and when it first began (0.0: never)."""
        times, firsts = [0] * jobs, [0.0] * jobs
        for file in self._files():
            pairs = array("d", file.read_bytes()[PAIR.size : PAIR.size * (jobs + 1)])
            for job, (count, first) in enumerate(zip(pairs[::2], pairs[1::2], strict=True)):
                if count:
                    times[job] += int(count)
                    firsts[job] = min(first, firsts[job] or first)
        return times, firsts

    def _heads(self) -> list[tuple[float, float]]:
        heads = [PAIR.unpack(head) for head in map(_head, self._files()) if head]
        return [(runs, first) for runs, first in heads if first]

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob("*.runs"))


def _head(file: Path) -> bytes:
    with file.open("rb") as opened:
        head = opened.read(PAIR.size)
    # A file that was made and not yet sized has no head.
    return head if len(head) == PAIR.size else b""
