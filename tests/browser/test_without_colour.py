"""What colour tells, a word and a shape tell as well: in grey, and in colours of the system's."""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageChops
from playwright.sync_api import Locator, Page, expect
from sqlalchemy.orm import Session

from queueapp.jobs.status import Status
from tests.factories import make_job
from tests.scenes import Scene

CSS = (Path(__file__).parents[2] / "static" / "app.css").read_text()
TONES = ("waiting", "moving", "good", "careful", "bad")
# As the eye has it: a step of one in lightness is the least that is seen; these are taken for one.
ALIKE = 12.0
SHADE = 60
THEMES = pytest.mark.parametrize("theme", ["light", "dark"])
Themed = Callable[[str], None]
# What is drawn, and on what; in forced colours the system's own.
DRAWN = """one => {
  const look = getComputedStyle(one);
  let behind = one;
  while (behind && /rgba\\(.*, 0\\)|transparent/.test(getComputedStyle(behind).backgroundColor))
    behind = behind.parentElement;
  const ground = behind ? getComputedStyle(behind).backgroundColor : "none";
  const edge = side => [parseFloat(look[`border${side}Width`]), look[`border${side}Style`],
    look[`border${side}Color`]];
  return {ink: look.color, ground, left: edge("Left"), bottom: edge("Bottom"),
    outline: [parseFloat(look.outlineWidth), look.outlineStyle, look.outlineColor]};
}"""


@pytest.fixture
def every_status(session: Session) -> None:
    for status in Status:
        make_job(session, status)
    make_job(session, delay_s=3_600)
    make_job(session, delay_s=3_600, attempts=1)
    Scene(session).minutes(
        wait={12: 10}, run={12: 1}, succeeded=10, failed=9, cancelled=8, retry_scheduled=7
    )
    session.commit()


def chips(page: Page) -> dict[str, Locator]:
    """One chip of each status that the list has, by its word."""
    found = page.locator("#panel tbody .status")
    return {found.nth(n).inner_text(): found.nth(n) for n in range(found.count())}


def lightness(colour: str) -> float:
    """From 0 for black to 100 for white, as CIE has it."""
    linear = []
    for at in (1, 3, 5):
        part = int(colour[at : at + 2], 16) / 255
        linear.append(part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4)
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return 116 * luminance ** (1 / 3) - 16 if luminance > 0.008856 else 903.3 * luminance


def picture(one: Locator) -> Image.Image:
    return Image.open(io.BytesIO(one.screenshot())).convert("L")


def differ(one: Image.Image, other: Image.Image) -> float:
    """Which share of the dots is plainly another."""
    size = (min(one.width, other.width), min(one.height, other.height))
    box = (0, 0, *size)
    between = ImageChops.difference(one.crop(box), other.crop(box))
    return sum(between.histogram()[SHADE:]) / (size[0] * size[1])


def test_some_tones_are_one_grey_so_colour_alone_would_tell_nothing() -> None:
    """What the tests below are for."""
    for theme in (1, 2):
        shades = {
            name: lightness(found[theme])
            for name in TONES
            if (found := re.search(rf"--{name}: light-dark\((#\w+), (#\w+)\)", CSS))
        }
        assert set(shades) == set(TONES)
        pairs = itertools.combinations(shades.values(), 2)
        assert any(abs(one - other) < ALIKE for one, other in pairs)


@THEMES
def test_in_grey_each_status_has_a_word_and_a_shape_of_its_own(
    page: Page, live_server: str, every_status: None, theme: Any
) -> None:
    page.emulate_media(color_scheme=theme)
    deficiency = {"type": "achromatopsia"}
    page.context.new_cdp_session(page).send("Emulation.setEmulatedVisionDeficiency", deficiency)
    page.goto(f"{live_server}/jobs")

    found = chips(page)

    assert set(found) == {*Status, "scheduled", "retrying"}
    glyphs = {word: picture(chip.locator(".icon")) for word, chip in found.items()}
    for one, other in itertools.combinations(glyphs, 2):
        assert differ(glyphs[one], glyphs[other]) > 0.02, f"{one} and {other}"


@THEMES
def test_in_grey_each_part_of_the_chart_is_filled_in_a_way_of_its_own(
    page: Page, live_server: str, every_status: None, theme: Any
) -> None:
    page.emulate_media(color_scheme=theme)
    deficiency = {"type": "achromatopsia"}
    page.context.new_cdp_session(page).send("Emulation.setEmulatedVisionDeficiency", deficiency)
    page.goto(live_server)

    parts = page.locator(".chart__words > span:has(.swatch)")
    looks = {
        parts.nth(n).locator(".status").inner_text(): picture(parts.nth(n).locator(".swatch"))
        for n in range(parts.count())
    }

    assert len(looks) == 4
    for one, other in itertools.combinations(looks, 2):
        assert differ(looks[one], looks[other]) > 0.1, f"{one} and {other}"


@THEMES
def test_in_forced_colours_words_borders_and_the_focus_are_seen(
    page: Page, live_server: str, every_status: None, theme: Any
) -> None:
    page.emulate_media(forced_colors="active", color_scheme=theme)
    page.goto(live_server)
    verdict = drawn(page.locator("#verdict"))
    assert is_seen(verdict["left"], verdict)
    for words in ("#verdict h2", "#verdict .verdict__text", "#badge", ".number dd"):
        told = drawn(page.locator(words).first)
        assert told["ink"] != told["ground"], words
    page.goto(f"{live_server}/jobs")
    for word, chip in chips(page).items():
        told = drawn(chip)
        assert told["ink"] != told["ground"], word
        # What has only a ground of its own elsewhere has an edge here.
        assert is_seen(told["outline"], told) == (word in ("running", "failed")), word
    shapes = page.locator(".icon:visible")
    assert shapes.count() > 20
    for n in range(shapes.count()):
        shape = shapes.nth(n)
        around = drawn(shape.locator(".."))
        assert drawn(shape)["ink"] == around["ink"], shape.evaluate("one => one.outerHTML")
    buttons = page.locator(".button:visible")
    for n in range(buttons.count()):
        told = drawn(buttons.nth(n))
        assert is_seen(told["left"], told), buttons.nth(n).inner_text()
    here = drawn(page.locator(".top__nav [aria-current]"))
    assert is_seen(here["bottom"], here)
    page.keyboard.press("j")
    row = page.locator("tr[data-current]")
    assert is_seen(drawn(row)["outline"], drawn(row))
    for key in ("Tab", "Tab", "Shift+Tab"):
        page.keyboard.press(key)
        expect(page.locator(":focus-visible")).to_have_count(1)
        focused = drawn(page.locator(":focus-visible"))
        assert is_seen(focused["outline"], focused)


def drawn(one: Locator) -> Any:
    return one.evaluate(DRAWN)


def is_seen(edge: tuple[float, str, str], told: Any) -> bool:
    """Whether there is a line, of another colour than what is behind it."""
    width, style, colour = edge
    return width >= 1 and style != "none" and colour != told["ground"]
