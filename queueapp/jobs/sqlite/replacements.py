"""Which statements are replaced by Python here, and how a replacement is run.

A replacement does the work of one PostgreSQL statement in one transaction, row by row. It is found
by the statement's text, so that the code which asks has no branches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeAlias

from sqlalchemy import Connection, Row
from sqlalchemy.engine import IteratorResult, Result
from sqlalchemy.engine.result import SimpleResultMetaData

from queueapp.jobs.sqlite.driver import AUTOCOMMIT

Parameters: TypeAlias = Mapping[str, Any]
Function: TypeAlias = Callable[[Connection, Parameters], Sequence[Row[Any]]]


@dataclass(frozen=True, slots=True)
class _Replacement:
    function: Function
    writes: bool


known: dict[str, _Replacement] = {}


def instead_of(*statements: str, writes: bool = False) -> Callable[[Function], Function]:
    """Have the function answer in place of ``statements``; ``writes``: as the only writer."""

    def register(function: Function) -> Function:
        known.update(dict.fromkeys(statements, _Replacement(function, writes)))
        return function

    return register


def reworded(statement: str, text: str) -> None:
    """Have ``statement`` said in other words; the parameters are the same."""
    instead_of(statement)(lambda connection, given: fetch(connection, text, **given))


def answer(connection: Connection, statement: str, parameters: Parameters) -> Sequence[Row[Any]]:
    """The rows of ``statement``."""
    replacement = known.get(statement)
    if replacement is None:
        return fetch(connection, statement, **parameters)
    with _alone(connection) if replacement.writes else nullcontext():
        return replacement.function(connection, parameters)


def fetch(connection: Connection, text: str, **parameters: Any) -> Sequence[Row[Any]]:
    """Execute one statement of SQLite's and return its rows."""
    result = connection.exec_driver_sql(text, parameters)
    return result.all() if result.returns_rows else ()


def execute_many(connection: Connection, text: str, parameters: list[dict[str, Any]]) -> None:
    """Execute one statement for many rows, or for none."""
    if parameters:
        connection.exec_driver_sql(text, parameters)


def made(names: Sequence[str], values: Sequence[Sequence[Any]]) -> Sequence[Row[Any]]:
    """Rows that no statement has fetched."""
    result: Result[Any] = IteratorResult(
        SimpleResultMetaData(names), iter([tuple(each) for each in values])
    )
    return result.all()


def row_of(**fields: Any) -> Sequence[Row[Any]]:
    """The only row, by its columns."""
    return made(tuple(fields), [tuple(fields.values())])


@contextmanager
def _alone(connection: Connection) -> Iterator[None]:
    """All or nothing, without another writer: what one statement is in PostgreSQL."""
    driver: Any = connection.connection.driver_connection
    if driver.in_transaction or driver.mode != AUTOCOMMIT:
        begin, keep, undo = "SAVEPOINT whole", "RELEASE whole", "ROLLBACK TO whole"
    else:
        begin, keep, undo = "BEGIN IMMEDIATE", "COMMIT", "ROLLBACK"
    connection.exec_driver_sql(begin)
    try:
        yield
    except BaseException:
        if driver.in_transaction:  # some errors have ended it already
            connection.exec_driver_sql(undo)
        raise
    connection.exec_driver_sql(keep)
