"""The example with thumbnails, on real files: nothing half, nothing twice, nothing outside."""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType

import pytest
from PIL import Image

from queueapp.handlers import Fail, JobContext, Stop
from tests.handlers.conftest import make_context

RED = (200, 30, 30)


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module, with a root of the test's own that has three pictures in ``summer``."""
    # Imported here: it registers a kind, which no other test shall see.
    from examples.thumbnails import jobs

    monkeypatch.setattr(jobs, "ROOT", tmp_path)
    (tmp_path / "summer").mkdir()
    for name in ("a.jpg", "b.png", "c.webp"):
        Image.new("RGB", (640, 320), RED).save(tmp_path / "summer" / name)
    return jobs


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """Where the thumbnails go."""
    return tmp_path / "summer" / "thumbnails-256"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_each_picture_gets_a_small_one(
    example: ModuleType, context: JobContext, made: Path
) -> None:
    result = example.make_thumbnails(context, "summer")

    assert result == {
        "folder": "summer", "pictures": 3, "made": 3, "kept": 0, "unreadable": 0, "errors": {},
    }  # fmt: skip
    assert names(made) == ["a.jpg.webp", "b.png.webp", "c.webp.webp"]
    with Image.open(made / "a.jpg.webp") as small:
        assert small.size == (256, 128)
    progress = context.take_progress()
    assert progress
    assert (progress.percent, progress.note) == (66, "3 of 3: c.webp")


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp", "gif"])
def test_a_small_picture_stays_as_small(
    example: ModuleType, context: JobContext, made: Path, suffix: str
) -> None:
    Image.new("RGB", (40, 20), RED).save(made.parent / f"small.{suffix}")

    assert example.make_thumbnails(context, "summer")["made"] == 4

    with Image.open(made / f"small.{suffix}.webp") as small:
        assert small.size == (40, 20)


def test_what_is_up_to_date_is_kept(example: ModuleType, context: JobContext, made: Path) -> None:
    example.make_thumbnails(context, "summer")
    kept = (made / "a.jpg.webp").stat()
    changed = made.parent / "b.png"
    Image.new("RGB", (100, 200), RED).save(changed)
    os.utime(changed, (1, 1))  # a picture replaced by an older one has changed as well

    result = example.make_thumbnails(context, "summer")

    assert (result["made"], result["kept"]) == (1, 2)
    assert (made / "a.jpg.webp").stat() == kept
    with Image.open(made / "b.png.webp") as small:
        assert small.size == (100, 200)


def test_a_stopped_job_leaves_whole_files_and_goes_on_from_there(
    example: ModuleType, context: JobContext, made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = example.make

    def make_and_be_cancelled(*paths: Path, **options: Path) -> None:
        make(*paths, **options)
        context.interrupt("cancel")

    monkeypatch.setattr(example, "make", make_and_be_cancelled)
    with pytest.raises(Stop):
        example.make_thumbnails(context, "summer")
    assert names(made) == ["a.jpg.webp"]

    monkeypatch.undo()
    monkeypatch.setattr(example, "ROOT", made.parents[1])
    assert example.make_thumbnails(make_context(attempt=2), "summer")["kept"] == 1


def test_a_write_that_breaks_off_leaves_nothing(
    example: ModuleType, context: JobContext, made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        example.make_thumbnails(context, "summer")
    assert names(made) == []


def test_what_a_killed_attempt_has_left_is_cleared_away(
    example: ModuleType, context: JobContext, made: Path
) -> None:
    made.mkdir()
    (made / ".job-7-1.part").write_bytes(b"half a pict")
    (made / ".job-8-1.part").write_bytes(b"of another job, which may be running")

    example.make_thumbnails(context, "summer")

    assert [name for name in names(made) if name.endswith(".part")] == [".job-8-1.part"]


def test_pictures_that_are_none_are_named_and_the_others_made(
    example: ModuleType, context: JobContext, made: Path
) -> None:
    whole = (made.parent / "a.jpg").read_bytes()
    (made.parent / "cut.jpg").write_bytes(whole[: len(whole) // 2])
    (made.parent / "text.png").write_text("no picture")
    (made.parent / "notes.txt").write_text("not asked for")
    (made.parent / "link.jpg").symlink_to(made.parent / "a.jpg")

    result = example.make_thumbnails(context, "summer")

    assert (result["pictures"], result["made"], result["unreadable"]) == (5, 3, 2)
    assert sorted(result["errors"]) == ["cut.jpg", "text.png"]


def test_a_disk_that_fails_is_no_bad_picture(
    example: ModuleType, context: JobContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Image, "open", gone)
    with pytest.raises(OSError, match="Input/output"):
        example.make_thumbnails(context, "summer")


def test_a_picture_that_was_taken_upright_stands_upright(
    example: ModuleType, context: JobContext, made: Path
) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # turn it by 90 degrees to see it
    Image.new("RGB", (640, 320), RED).save(made.parent / "a.jpg", exif=exif)

    example.make_thumbnails(context, "summer")

    with Image.open(made / "a.jpg.webp") as small:
        assert small.size == (128, 256)


@pytest.mark.parametrize("folder", ["../elsewhere", "/etc", "summer/../..", "out", "nowhere"])
def test_no_payload_leads_outside(
    example: ModuleType, context: JobContext, tmp_path: Path, folder: str
) -> None:
    (tmp_path / "out").symlink_to("/etc")
    with pytest.raises(Fail):
        example.make_thumbnails(context, folder)
