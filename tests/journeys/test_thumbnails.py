"""The example with thumbnails as its README runs it: producer, worker, real files."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from PIL import Image

from tests.live.checks import stand
from tests.live.journey import Journey
from tests.live.processes import Process, until

HANDLERS = "tests.live.kinds,examples.thumbnails.jobs"


@pytest.mark.slow
def test_folders_of_pictures_get_thumbnails(journey: Journey, tmp_path: Path) -> None:
    root = tmp_path / "pictures"
    for folder, count in (("spring", 2), ("summer", 3)):
        (root / folder).mkdir(parents=True)
        for number in range(count):
            picture(root / folder / f"{number}.jpg")

    def enqueue(*words: str) -> str:
        script = journey.processes.start(
            "enqueue", "examples.thumbnails.enqueue", *words, THUMBNAILS_ROOT=str(root)
        )
        assert script.wait() == 0, script.said()
        return script.said()

    journey.work("--concurrency=2", QUEUE_HANDLERS=HANDLERS, THUMBNAILS_ROOT=str(root))
    assert enqueue() == "spring: job 1, new\nsummer: job 2, new\n"
    rows = [journey.wait_for_status(job, "succeeded", "failed") for job in (1, 2)]

    assert [row.result["made"] for row in rows] == [2, 3]
    with Image.open(root / "summer" / "thumbnails-256" / "2.jpg.webp") as small:
        assert small.size == (256, 192)

    # Nothing has changed: no new job. A new picture: a job that makes this one only.
    assert enqueue() == "spring: job 1, replay\nsummer: job 2, replay\n"
    picture(root / "summer" / "new.png")
    new = re.fullmatch(r"summer: job (\d+), new\n", enqueue("summer"))
    assert new
    result = journey.wait_for_status(int(new[1]), "succeeded", "failed").result
    assert (result["made"], result["kept"]) == (1, 3)
    stand(journey)


@pytest.mark.slow
def test_a_folder_that_is_killed_in_the_middle_is_finished(
    journey: Journey, tmp_path: Path
) -> None:
    folder = tmp_path / "pictures" / "many"
    folder.mkdir(parents=True)
    picture(folder / "000.jpg")
    for number in range(1, 100):
        os.link(folder / "000.jpg", folder / f"{number:03}.jpg")
    job = journey.enqueue_one("thumbnails.make", {"folder": "many", "size": 128})

    def work() -> Process:
        root = str(folder.parent)
        return journey.work("--lease=2s", QUEUE_HANDLERS=HANDLERS, THUMBNAILS_ROOT=root)

    worker = work()
    made = folder / "thumbnails-128"
    until(lambda: len(list(made.glob("*.webp"))) >= 5, "some thumbnails are made")
    worker.kill()
    before = len(list(made.glob("*.webp")))
    assert before < 100

    work()
    row = journey.wait_for_status(job, "succeeded", "failed")
    assert (row.result["kept"], row.result["made"]) == (before, 100 - before)
    assert not list(made.glob(".*"))
    stand(journey)


def picture(path: Path) -> None:
    Image.effect_noise((800, 600), 40).save(path)
