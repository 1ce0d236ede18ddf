"""Control events are the state: the latest of a scope counts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from sqlalchemy import text
from sqlalchemy.orm import Session

from queueapp.jobs import control
from queueapp.jobs.control import Controls
from queueapp.jobs.status import Event


def test_nothing_is_in_force_at_first(session: Session) -> None:
    controls = control.in_force(session)

    assert controls.pause is None
    assert controls.held_kinds == ()


def test_a_pause_says_who_and_why_until_it_is_lifted(session: Session) -> None:
    control.pause(session, actor="user:ana", reason="migration")

    paused = control.in_force(session).pause
    assert paused is not None
    assert (paused.actor, paused.reason) == ("user:ana", "migration")
    control.resume(session, actor="user:bob")
    assert control.in_force(session).pause is None


def test_holds_are_by_kind(session: Session) -> None:
    control.hold_kind(session, "mail.send", actor="user:ana", reason="x")
    control.hold_kind(session, "report.build", actor="user:ana", reason="x")
    control.unhold_kind(session, "mail.send", actor="user:ana")

    assert control.in_force(session).held_kinds == ("report.build",)


def test_a_carried_switch_is_what_it_was_when_it_was_set(session: Session) -> None:
    then = datetime(2026, 1, 2, tzinfo=UTC)
    told = {"event": "kind_held", "actor": "user:ana", "reason": "x", "at": then.isoformat()}
    control.record(
        session, Event.CONTROL_CARRIED, scope="kind:mail.send", actor="housekeeping:one", data=told
    )

    controls = control.in_force(session)

    assert controls.held_kinds == ("mail.send",)
    assert controls.latest["kind:mail.send"].actor == "user:ana"
    assert controls.latest["kind:mail.send"].at == then


def test_newer_ones_win_when_merged_whatever_the_order(session: Session) -> None:
    control.pause(session, actor="user:ana", reason="x")
    old = control.in_force(session)
    control.resume(session, actor="user:ana")
    new = control.in_force(session)

    for first, second in ((old, new), (new, old)):
        merged = Controls(dict(first.latest))
        merged.merge(second)
        assert merged.pause is None


def test_older_ones_than_asked_for_are_not_read(session: Session) -> None:
    control.pause(session, actor="user:ana", reason="x")
    session.execute(text("UPDATE job_events SET created_at = created_at + interval '1 hour'"))
    now: datetime = session.execute(text("SELECT now()")).scalar_one()

    assert control.in_force(session, since=now + timedelta(hours=2)).latest == {}
    assert control.in_force(session, since=now).pause is not None
