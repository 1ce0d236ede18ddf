"""Rules of the code that no linter knows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from queueapp.jobs.status import Event, Status

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "queueapp"
SOURCES = sorted(PACKAGE.rglob("*.py"))
DOMAIN = [path for path in SOURCES if path.is_relative_to(PACKAGE / "jobs")]
OUTSIDE = [path for path in SOURCES if path not in DOMAIN]

WRITES = re.compile(
    r"\b(INSERT\s+INTO|UPDATE|DELETE\s+FROM|TRUNCATE)\s+(jobs|job_events)\b"
    r"|\.(add|add_all|delete|merge)\(\s*(Job|JobEvent)\b"
    r"|\b(insert|update|delete)\(\s*(Job|JobEvent)\b"
)
STATUS_LITERAL = re.compile(r"\bstatus\s*(?:=|<>|IN)\s*\(?'([^)]*?)'\)?", re.IGNORECASE)
EVENT_LITERAL = re.compile(r"\bevent\s*(?:=|<>)\s*'([a-z_]+)'")


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", OUTSIDE, ids=named)
def test_the_two_tables_are_written_in_the_domain_only(path: Path) -> None:
    assert WRITES.findall(path.read_text()) == []


@pytest.mark.parametrize("path", SOURCES, ids=named)
def test_a_file_stays_under_300_lines(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 300


@pytest.mark.parametrize("path", DOMAIN, ids=named)
def test_statements_name_known_statuses_and_events_only(path: Path) -> None:
    source = path.read_text()
    statuses = {
        s for found in STATUS_LITERAL.findall(source) for s in re.split(r"'\s*,\s*'", found)
    }
    events = set(EVENT_LITERAL.findall(source))

    assert {s for s in statuses if "{" not in s} <= {str(status) for status in Status}
    assert events <= {str(event) for event in Event}


def test_every_template_fragment_and_page_is_rendered_by_a_view() -> None:
    views = "\n".join(path.read_text() for path in SOURCES)
    templates = sorted((ROOT / "templates").rglob("*.html"))
    included = "\n".join(path.read_text() for path in templates)

    unused = [
        path.relative_to(ROOT / "templates").as_posix()
        for path in templates
        if f"{path.relative_to(ROOT / 'templates').as_posix()}" not in views + included
        and path.stem not in views
    ]

    assert unused == []
