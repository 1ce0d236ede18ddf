"""The raw results of a run: one JSON object a line, each written as soon as it is known.

The first line has the conditions. A line of a measurement has ``peer``, ``workload``, ``round``,
``load`` (the machine's load average then) and ``status``: ``ok`` with its figures, or ``missing``,
``failed`` or ``none`` (nothing to measure) with ``why``.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

Line = dict[str, Any]


class Raw:
    """The file of one run."""

    def __init__(self, folder: Path, conditions: Line) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / time.strftime("%Y%m%d-%H%M%S.jsonl", time.gmtime())
        self._write({"workload": "conditions", **conditions})

    def add(self, peer: str, workload: str, round_: int, **figures: Any) -> Line:
        """Write one line; return it."""
        line: Line = {"peer": peer, "workload": workload, "round": round_}
        line |= {"load": os.getloadavg()[0], "at": int(time.time()), "status": "ok", **figures}
        self._write(line)
        return line

    def _write(self, line: Line) -> None:
        rounded = {
            name: round(value, 5) if isinstance(value, float) else value
            for name, value in line.items()
        }
        with self.path.open("a") as file:
            file.write(json.dumps(rounded, ensure_ascii=False) + "\n")


def read(path: Path) -> tuple[Line, list[Line]]:
    """The conditions, and the measurements in their order."""
    lines = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
    if not lines or lines[0].get("workload") != "conditions":
        raise ValueError(f"{path} does not begin with the conditions of a run")
    return lines[0], lines[1:]


def newest(folder: Path) -> Path:
    """The file of the last run. Raises FileNotFoundError when there is none."""
    files = sorted(folder.glob("[0-9]*-[0-9]*.jsonl"))
    if not files:
        raise FileNotFoundError(f"no results in {folder}: run the bench first")
    return files[-1]
