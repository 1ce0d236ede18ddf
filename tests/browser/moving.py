"""Operations on their way, as a page may meet them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy.orm import Session

from queueapp.jobs import operations
from queueapp.jobs.operations import driver, planning, walk
from queueapp.jobs.queries import JobFilter
from queueapp.jobs.status import Status
from tests.factories import make_job


def moving(session: Session, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The ids of operations that are counting, at work, stopped, and done."""
    for _ in range(5):
        make_job(session, Status.FAILED, kind="b" * 30)
    session.commit()
    with monkeypatch.context() as slow:
        slow.setattr(walk, "find_candidates", lambda *_: None)
        slow.setattr(walk, "SCAN_LIMIT", 2)
        slow.setattr(planning, "COUNT_S", -1.0)
        yield _planned(session)
    monkeypatch.setattr(driver, "BATCH", 1)
    for stops in (False, True):
        begun = _planned(session)
        operations.advance(session, begun, actor="user:ana")
        if stops:
            operations.stop(session, begun, actor="user:ana", reason="r" * 300, via="console")
        session.commit()
        yield begun
    monkeypatch.undo()
    done = _planned(session)
    while not operations.advance(session, done, actor="user:ana").is_over:
        session.commit()
    session.commit()
    yield done


def _planned(session: Session) -> str:
    where = JobFilter(status=(Status.FAILED,), kind="b" * 30)
    found = operations.survey(session, "retry", where)
    made = operations.plan(session, found, how={}, actor="user:ana", reason="r" * 300)
    session.commit()
    return made.id
