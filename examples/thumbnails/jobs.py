"""A handler on real files: it makes thumbnails of a folder of pictures.

Web processes and workers import it with ``QUEUE_HANDLERS=examples.thumbnails.jobs``. It touches
nothing outside ``THUMBNAILS_ROOT``, whatever a payload asks for.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from PIL import Image, ImageOps
from pydantic import Field

from queueapp import JobContext, handler
from queueapp.handlers import Fail

ROOT = Path(os.environ.get("THUMBNAILS_ROOT", "pictures")).resolve()
# Only what is expected is decoded: each format more is more code that reads strangers' files.
FORMATS = ("JPEG", "PNG", "WEBP", "GIF")
SUFFIXES = {".jpg", ".jpeg", ".png", ".webp", ".gif"}
# A result is at most 256 KiB; the first unreadable pictures say enough.
MOST_NAMED = 100


class Unreadable(Exception):
    """The picture is at fault, not the disk: trying again would not help."""


@handler("thumbnails.make", max_attempts=3, timeout=3600)
def make_thumbnails(
    ctx: JobContext, folder: str, size: Annotated[int, Field(ge=16, le=2048)] = 256
) -> dict[str, Any]:
    """Make thumbnails of the pictures in a folder, at most size × size, in a folder within it."""
    source = inside(folder)
    target = source / f"thumbnails-{size}"
    target.mkdir(exist_ok=True)
    clear_away(target, ctx.id)
    pictures = sorted(pictures_in(source))
    made = kept = 0
    unreadable: dict[str, str] = {}
    for done, picture in enumerate(pictures):
        ctx.raise_if_cancelled()
        ctx.progress(100 * done / len(pictures), f"{done + 1} of {len(pictures)}: {picture.name}")
        thumbnail = target / f"{picture.name}.webp"
        if is_up_to_date(thumbnail, picture):
            kept += 1
            continue
        try:
            make(picture, thumbnail, size, part=target / f".job-{ctx.id}-{ctx.attempt}.part")
            made += 1
        except Unreadable as error:
            unreadable[picture.name] = str(error)
    return {
        "folder": folder,
        "pictures": len(pictures),
        "made": made,
        "kept": kept,
        "unreadable": len(unreadable),
        "errors": dict(list(unreadable.items())[:MOST_NAMED]),
    }


def inside(folder: str) -> Path:
    """The folder, which must be one below ROOT: a payload may come from anybody."""
    found = (ROOT / folder).resolve()
    if not found.is_relative_to(ROOT):
        raise Fail(f"{folder} is outside of THUMBNAILS_ROOT")
    if not found.is_dir():
        raise Fail(f"there is no folder {folder}")
    return found


def pictures_in(folder: Path) -> Iterator[Path]:
    """The pictures themselves: a link could lead outside."""
    for path in folder.iterdir():
        if path.suffix.lower() in SUFFIXES and path.is_file() and not path.is_symlink():
            yield path


def is_up_to_date(thumbnail: Path, picture: Path) -> bool:
    """A thumbnail has the time of the picture that it was made of."""
    if not thumbnail.exists():
        return False
    return thumbnail.stat().st_mtime_ns == picture.stat().st_mtime_ns


def make(picture: Path, thumbnail: Path, size: int, *, part: Path) -> None:
    """Write it under another name first: what has the right name is whole, whatever happens."""
    # Before it is read: a picture that changes meanwhile is done again next time.
    changed = picture.stat().st_mtime_ns
    small = shrunk(picture, size)
    try:
        with part.open("wb") as file:
            small.save(file, "WEBP")
            file.flush()
            os.fsync(file.fileno())
        os.utime(part, ns=(changed, changed))
        part.replace(thumbnail)
    finally:
        part.unlink(missing_ok=True)


def shrunk(picture: Path, size: int) -> Image.Image:
    """The picture upright and small. Raises Unreadable when it is none that Pillow can read."""
    try:
        with Image.open(picture, formats=FORMATS) as image:
            image.thumbnail((size, size))
            image.load()  # a small one has not been read yet, and the file is closed below
            ImageOps.exif_transpose(image, in_place=True)
            return image
    except OSError as error:
        # With a number it is the disk's: the attempt fails, and the job is tried again.
        if error.errno is not None:
            raise
        raise Unreadable(f"{type(error).__name__}: {error}") from error
    except (SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise Unreadable(f"{type(error).__name__}: {error}") from error


def clear_away(target: Path, job: int) -> None:
    """Remove what an attempt that was killed has left; if it still runs, its lease is lost."""
    for part in target.glob(f".job-{job}-*.part"):
        part.unlink(missing_ok=True)
