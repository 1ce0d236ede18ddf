"""Control events are the state: the latest of a scope counts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa
from sqlalchemy import text
from sqlalchemy.orm import Session

from queueapp.jobs import control
from queueapp.jobs.control import Controls
from queueapp.jobs.expiry import lift_expired
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
    controls = control.in_force(session)
    assert controls.pause is None
    assert controls.latest["queue"].began_at == paused.at


def test_holds_are_by_kind(session: Session) -> None:
    control.hold_kind(session, "mail.send", actor="user:ana", reason="x")
    control.hold_kind(session, "report.build", actor="user:ana", reason="x")
    control.unhold_kind(session, "mail.send", actor="user:ana")

    assert control.in_force(session).held_kinds == ("report.build",)


def test_a_carried_switch_is_what_it_was_when_it_was_set(session: Session) -> None:
    then = datetime(2026, 1, 2, tzinfo=UTC)
    until = then + timedelta(hours=1)
    told = {"event": "kind_held", "actor": "user:ana", "reason": "x", "at": then.isoformat(),
            "until": until.isoformat()}  # fmt: skip
    control.record(
        session, Event.CONTROL_CARRIED, scope="kind:mail.send", actor="housekeeping:one", data=told
    )

    controls = control.in_force(session)

    assert controls.held_kinds == ("mail.send",)
    assert controls.latest["kind:mail.send"].actor == "user:ana"
    assert controls.latest["kind:mail.send"].at == then
    assert controls.latest["kind:mail.send"].until == until


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


def test_what_was_set_for_a_time_is_lifted_once_when_it_is_over(session: Session) -> None:
    control.pause(session, actor="user:ana", reason="deploy", for_s=1800, via="console")
    control.hold_kind(session, "mail.send", actor="user:ana", reason="x", for_s=0)
    control.hold_kind(session, "report.build", actor="user:ana", reason="x")
    paused = control.in_force(session).pause
    assert paused is not None
    assert paused.until is not None
    assert abs((paused.until - paused.at).total_seconds() - 1800) < 5

    lifted = [lift_expired(session, actor="housekeeping:one") for _ in range(2)]

    assert lifted == [["kind:mail.send"], []]
    controls = control.in_force(session)
    assert controls.held_kinds == ("report.build",)
    lift = controls.latest["kind:mail.send"]
    assert (lift.event, lift.actor, lift.reason) == ("kind_unheld", "housekeeping:one", "expired")
    assert controls.pause == paused


@pytest.mark.postgresql("two writers at once")
def test_nothing_is_lifted_while_somebody_sets_it_anew(engine: sa.Engine, session: Session) -> None:
    control.pause(session, actor="user:ana", reason="deploy", for_s=0)
    session.commit()
    with Session(engine) as other:
        control.pause(other, actor="user:bob", reason="longer", for_s=1800)

        assert lift_expired(session, actor="housekeeping:one") == []
        session.rollback()
        other.commit()

    assert lift_expired(session, actor="housekeeping:one") == []
    pause = control.in_force(session).pause
    assert pause is not None
    assert pause.actor == "user:bob"


def test_a_lifted_hold_says_how_long_its_jobs_still_take_to_come_back(session: Session) -> None:
    control.unhold_kind(session, "mail.send", actor="user:ana", spread_s=600)
    controls = control.in_force(session)
    at = controls.latest["kind:mail.send"].at

    left = [controls.spread_left_s("mail.send", at + timedelta(seconds=s)) for s in (0, 60, 900)]

    assert left == [600, 540, 0]
    assert controls.spread_left_s("report.build", at) == 0
