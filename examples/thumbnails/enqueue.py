#!/usr/bin/env python3
"""Create a job for each folder of pictures below THUMBNAILS_ROOT: all of them, or none.

    python -m examples.thumbnails.enqueue [--size PIXELS] [FOLDER…]

Run it as often as you like: a folder gets a new job only when it has changed since its last one.
"""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path

from examples.thumbnails.jobs import ROOT, inside, pictures_in
from queueapp import create_app, enqueue
from queueapp.extensions import db


def key(folder: Path, size: int) -> str:
    """What the job is about, in a text of limited length: folder, size, its pictures' state."""
    state = sorted((one.name, one.stat().st_mtime_ns) for one in pictures_in(folder))
    return "thumbnails-" + hashlib.sha256(repr((folder, size, state)).encode()).hexdigest()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--size", type=int, default=256, help="of a thumbnail, in pixels")
    options.add_argument("folders", nargs="*", help="below THUMBNAILS_ROOT; all unless given")
    given = options.parse_args()
    everything = sorted(path.name for path in ROOT.iterdir() if path.is_dir())
    with create_app().app_context(), db.engine.begin() as transaction:
        for folder in given.folders or everything:
            made = enqueue(
                transaction,
                "thumbnails.make",
                {"folder": folder, "size": given.size},
                key=key(inside(folder), given.size),
            )
            print(f"{folder}: job {made.id}, {made.outcome}")


if __name__ == "__main__":
    main()
