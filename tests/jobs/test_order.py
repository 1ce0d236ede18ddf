"""ORDER BY takes an output column before an input column of the same name.

So a statement that gives ``xid::text AS xid`` and sorts by ``xid`` sorts texts: '999' after '1000'.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import queueapp
from queueapp.jobs.models import Job, JobEvent

COLUMNS = {column.name for table in (Job, JobEvent) for column in table.__table__.columns}
_INNERMOST = re.compile(r"\(([^()]*)\)")
_OUTPUT = re.compile(r"\bSELECT\b(.*?)\bFROM\b(.*)", re.DOTALL)
_ORDER = re.compile(r"\bORDER BY\b(.*?)(?:\bLIMIT\b|\bFOR\b|$)", re.DOTALL)
_ITEM = re.compile(r"(?P<made>.*?)(?:\s+AS\s+\"?(?P<name>\w+)[^,]*)?", re.DOTALL)


def _queries(statement: str) -> Iterator[str]:
    """Every query within the statement by itself, what is in brackets left out of the outer one."""
    text = re.sub(r"--.*|'[^']*'", "_", statement)
    while found := _INNERMOST.search(text):
        yield found[1]
        text = f"{text[: found.start()]} {{}} {text[found.end() :]}"
    yield text


def _made(outputs: str) -> Iterator[str]:
    """The names of the output columns that are not what the input columns of those names are."""
    for item in outputs.split(","):
        found = _ITEM.fullmatch(item.strip())
        assert found
        # A cast of a column bears the column's name.
        name = found["name"] or re.sub(r"::\w+$", "", found["made"]).rpartition(".")[2]
        if name in COLUMNS and found["made"].rpartition(".")[2] != name:
            yield name


def _mistaken(statement: str) -> set[str]:
    found: set[str] = set()
    for query in _queries(statement):
        for part in re.split(r"\bUNION ALL\b", query):
            of, order = _OUTPUT.search(part), _ORDER.search(part)
            if of and order:
                sorted_by = {word.split()[0] for word in order[1].split(",") if word.split()}
                found |= sorted_by.intersection(_made(of[1]))
    return found


def _texts() -> Iterator[tuple[str, str]]:
    """Every text of the code in which something is put in order, and where it is."""
    root = Path(queueapp.__file__).parent
    for path in root.rglob("*.py"):
        tree = ast.parse(path.read_text())
        parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)
                 for part in node.values}  # fmt: skip
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                said = [one.value if isinstance(one, ast.Constant) else "_" for one in node.values]
            elif isinstance(node, ast.Constant) and id(node) not in parts:
                said = [node.value]
            else:
                continue
            text = "".join(map(str, said))
            if "ORDER BY" in text and "SELECT" in text:
                yield f"{path.relative_to(root)}:{node.lineno}", text


def test_nothing_is_sorted_by_what_its_column_was_made_into() -> None:
    found = {place: _mistaken(text) for place, text in _texts()}

    assert len(found) > 100
    assert {place: columns for place, columns in found.items() if columns} == {}


def test_a_sort_by_text_would_be_found() -> None:
    assert _mistaken("SELECT (SELECT xid::text FROM news ORDER BY xid DESC, id DESC LIMIT 1)")
    assert _mistaken("SELECT data ->> 'id' AS id FROM job_events ORDER BY id DESC LIMIT 1")
    assert not _mistaken("SELECT e.xid::text AS xid FROM job_events e ORDER BY e.xid LIMIT 1")
