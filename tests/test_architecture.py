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
STATUS_NAMED = re.compile(
    r"\b(?:\w+_)?status\s*(?:=|<>|(?:NOT )?IN|WHEN)\s*(\([^)]*\)|'[^']*')", re.IGNORECASE
)
EVENT_NAMED = re.compile(r"\bevent\s*(?:=|<>|(?:NOT )?IN|WHEN)\s*(\([^)]*\)|'[^']*')")
QUOTED = re.compile(r"'([a-z_]+)'")


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

    assert quoted(STATUS_NAMED, source) <= {str(status) for status in Status}
    assert quoted(EVENT_NAMED, source) <= {str(event) for event in Event}


def test_nobody_but_the_fallback_imports_the_fallback() -> None:
    """SQLAlchemy loads it when it meets its address; else it would ride along on PostgreSQL."""
    importing = re.compile(r"^\s*(?:from|import) queueapp\.jobs(?:\.| import )sqlite", re.MULTILINE)
    fallback = PACKAGE / "jobs" / "sqlite"

    found = {path for path in SOURCES if importing.search(path.read_text())}

    assert found
    assert {named(path) for path in found if not path.is_relative_to(fallback)} == set()


def test_the_application_itself_is_asked_for_in_one_place() -> None:
    asking = [named(path) for path in SOURCES if "current_app._get_current" in path.read_text()]

    assert asking == ["queueapp/application.py"]


def quoted(named: re.Pattern[str], source: str) -> set[str]:
    """The words in quotes that a statement compares with."""
    return {word for found in named.findall(source) for word in QUOTED.findall(found)}


def test_the_words_that_statements_compare_with_are_found() -> None:
    source = (
        "status NOT IN ('a', 'b') AND j.status = 'c' OR to_status <> 'd' CASE x.status WHEN 'e'"
    )

    assert quoted(STATUS_NAMED, source) == set("abcde")


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
