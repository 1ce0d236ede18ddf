"""The command line, and the help that teaches it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from bench import raw
from bench.installation import HERE, ROOT
from bench.own_workloads import OWN_WORKLOADS
from bench.table import BY_NAME, PEERS
from bench.workloads import QUICKLY, WORKLOADS

_ABOUT = """\
Measure this product beside other job queues, on this machine.

It installs the other queues into its scratch folder (once), starts a PostgreSQL
and a Redis of its own on loopback, lets every queue do the same work in turn,
round after round, checks that every job ran exactly once and is marked done,
and stops what it has started. Medians, least and most of the rounds go into
docs/benchmarks.md, with charts, versions and settings.
"""
_MORE = """\
workloads:
{workloads}
  and for this product alone:
{own}

queues and settings:
{peers}

examples:
  bench/run                                    # everything, three rounds: about an hour
  bench/run --resume                           # what an interrupted run still has to do
  bench/run --quick                            # one short round: under five minutes
  bench/run --only ours,pgqueuer-fast --workloads w3,w4 --rounds 5
  bench/run --only ours --workloads ladder --docs   # the ladder of docs/scaling.md
  bench/run --report                           # the pages again, from the last results

A queue that cannot be installed or started is in the table as missing, with the
reason. BullMQ needs redis-server (Debian: apt-get install redis-server), the
Node queues need npm. Results of --quick, --only and --workloads go to a page in
the scratch folder; --docs puts them into docs/benchmarks.md all the same.

exit status: 0 all that could be measured was; 1 a queue failed; 2 wrong options.
"""


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Read the options; ends the process when they are wrong, or after --help."""
    parser = _parser()
    options = parser.parse_args(words)
    options.scratch = options.scratch.resolve()
    options.again = None
    if options.resume is not None:
        if options.only or options.workloads or options.quick:
            parser.error("--resume goes on as the run began: name no queues nor workloads")
        _take_up(options)
    options.partial = bool(options.only or options.workloads or options.quick)
    options.rounds = options.rounds or (1 if options.quick else 3)
    options.only = options.only or list(BY_NAME)
    every = [*WORKLOADS, *OWN_WORKLOADS]
    # The ladder takes minutes: in a quick run it has to be asked for.
    whole = [one for one in every if one != "ladder" or not options.quick]
    options.chosen = options.workloads or whole
    # The rest of a quick round is this product's alone: filling tables for all takes ten minutes.
    options.for_others = options.workloads or (list(QUICKLY) if options.quick else every)
    return options


def _take_up(options: argparse.Namespace) -> None:
    """Set what the run that is to be completed began with; ``--rounds`` may ask for more."""
    folder = options.scratch / "results"
    options.again = Path(options.resume) if options.resume else raw.newest(folder)
    conditions, _ = raw.read(options.again)
    options.quick = conditions["quick"]
    options.only = list(conditions["peers"])
    options.workloads = conditions.get("named")
    options.rounds = options.rounds or conditions["rounds"]
    if not conditions["partial"]:
        options.only = None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bench/run",
        description=_ABOUT,
        epilog=_MORE.format(
            workloads=_lines({name: str(do.__doc__) for name, do in WORKLOADS.items()}),
            own=_lines({name: str(do.__doc__) for name, do in OWN_WORKLOADS.items()}),
            peers=_lines({peer.name: peer.settings for peer in PEERS}),
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--quick", action="store_true", help="one round with fewer jobs; w1, w3, w4 for the others"
    )
    parser.add_argument(
        "--only", type=_names(BY_NAME), metavar="NAME[,NAME]", help="these queues and settings"
    )
    parser.add_argument(
        "--workloads",
        type=_names([*WORKLOADS, *OWN_WORKLOADS]),
        metavar="W[,W]",
        help="these workloads (w2 comes with w3)",
    )
    parser.add_argument("--rounds", type=_positive, metavar="N", help="default 3, with --quick 1")
    parser.add_argument(
        "--scratch",
        type=Path,
        default=HERE / ".scratch",
        metavar="DIR",
        help="where packages, servers and raw results lie (default bench/.scratch)",
    )
    parser.add_argument(
        "--pg-bindir",
        type=Path,
        metavar="DIR",
        help="PostgreSQL's programs (default: as every command finds them, $PG_BINDIR first)",
    )
    parser.add_argument(
        "--report",
        nargs="?",
        const="",
        metavar="FILE",
        help="measure nothing: make the page from FILE, or from the last results",
    )
    parser.add_argument(
        "--resume",
        nargs="?",
        const="",
        metavar="FILE",
        help="complete an interrupted run (the last one); with --rounds N, add rounds to it",
    )
    parser.add_argument(
        "--docs", action="store_true", help="write into docs/ even from part of the bench"
    )
    return parser


def _names(known: Collection[str]) -> Callable[[str], list[str]]:
    def read(text: str) -> list[str]:
        names = [name.strip() for name in text.split(",") if name.strip()]
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(f"no {name!r}; there are {', '.join(known)}")
        if not names:
            raise argparse.ArgumentTypeError("none named")
        return names

    return read


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError("expected a whole number above zero")
    return int(text)


def _lines(about: dict[str, str]) -> str:
    wide = max(map(len, about))
    return "\n".join(f"  {name:<{wide}}  {text}" for name, text in about.items())


def docs_folder(options: argparse.Namespace, *, whole: bool) -> Path:
    """Where the page goes: into the docs if it has everything, or on demand."""
    return ROOT / "docs" if whole or options.docs else options.scratch / "page"
