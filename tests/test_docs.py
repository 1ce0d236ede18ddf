"""The documentation says what the code does: its tables are the code's, no link is dead."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
PAGES += sorted((ROOT / "docs").glob("*.md")) + sorted((ROOT / "examples").glob("*/*.md"))
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def test_every_table_made_from_the_code_is_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, "bin/docs", "check"], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("document", PAGES, ids=lambda document: str(document.relative_to(ROOT)))
def test_every_link_leads_to_a_file(document: Path) -> None:
    targets = [link for link in LINK.findall(document.read_text()) if "://" not in link]

    missing = [link for link in targets if not (document.parent / link).exists()]

    assert missing == []


NAMED_TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


def test_every_test_that_reliability_names_exists() -> None:
    named = NAMED_TEST.findall((ROOT / "docs" / "reliability.md").read_text())

    missing = [
        (path, test)
        for path, test in named
        if not (ROOT / path).exists() or f"def {test}" not in (ROOT / path).read_text()
    ]

    assert named
    assert missing == []


def test_each_point_of_what_the_console_was_to_be_names_its_proof() -> None:
    text = (ROOT / "docs" / "reliability.md").read_text()
    section = text.partition("## What the console was to be\n")[2].partition("\n## ")[0]
    points = re.findall(r"^\| (\d+) \|.*\| (.+) \|$", section, re.MULTILINE)

    assert [int(number) for number, _ in points] == list(range(1, 13))
    assert [number for number, proof in points if not NAMED_TEST.search(proof)] == []
