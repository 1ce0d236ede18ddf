"""``bench/run``: measure, then write the page; or only write it."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from bench import raw, report, scaling
from bench.course import Course
from bench.errors import Missing
from bench.options import docs_folder, parse
from queueapp.local_postgres import LocalPostgresUnavailable


def main(words: list[str]) -> int:
    """Do what the command line asks; return the exit status."""
    options = parse(words)
    failures = 0
    if options.report is None:
        # So that a SIGTERM stops the servers as Ctrl-C does.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        course = Course.of(options)
        results = course.go()
        failures = course.failures
    else:
        folder = options.scratch / "results"
        results = Path(options.report) if options.report else raw.newest(folder)
    conditions, lines = raw.read(results)
    folder = docs_folder(options, whole=not conditions["partial"])
    # A ladder alone is no reason to write the other page anew.
    pages = [scaling.write(folder, conditions, lines)]
    if any(
        not str(line.get("step", "")).startswith("ladder")
        for line in lines
        if line["peer"] != "limit"
    ):
        pages.append(report.write(folder, conditions, lines))
    said = [scaling.summary(conditions, lines), report.summary(conditions, lines)]
    print("\n\n".join(part for part in said if part))
    print(f"raw results: {results}\nwritten: {', '.join(str(page) for page in pages if page)}")
    if conditions["quick"]:
        print("This was a quick run: few jobs, one round. Compare with care.")
    return 1 if failures else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        stopped = "interrupted; what was started is stopped"
        print(f"\nbench: {stopped}. The page of what there is: bench/run --report", file=sys.stderr)
        sys.exit(130)
    except (Missing, FileNotFoundError, ValueError, LocalPostgresUnavailable) as error:
        print(f"bench: {error}", file=sys.stderr)
        sys.exit(2)
