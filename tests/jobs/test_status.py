"""The table of moves is closed, and everything else is read from it."""

from __future__ import annotations

import re

import pytest
from sqlalchemy import CheckConstraint

from queueapp.jobs.models import Job
from queueapp.jobs.status import (
    ASIDE,
    CONTROL_EVENTS,
    FINAL,
    MOVES,
    ROW_ONLY,
    WAITING,
    Event,
    Status,
    Verb,
    is_legal,
    sources,
    verbs_from,
)


def test_every_verb_is_a_move_or_writes_the_row_only() -> None:
    moving = {move.verb for move in MOVES}

    assert moving.isdisjoint(ROW_ONLY)
    assert moving | set(ROW_ONLY) == set(Verb)


def test_no_move_stands_in_the_table_twice() -> None:
    assert len(set(MOVES)) == len(MOVES)


def test_job_events_are_those_of_moves_and_those_that_move_nothing() -> None:
    of_jobs = set(Event) - set(CONTROL_EVENTS)

    assert of_jobs == {move.event for move in MOVES} | {*ASIDE}


def test_no_control_event_is_a_move() -> None:
    assert {move.event for move in MOVES}.isdisjoint(CONTROL_EVENTS)


def test_every_status_can_be_reached_and_left() -> None:
    assert {move.target for move in MOVES} == {*Status, None}
    assert {move.source for move in MOVES} == {*Status, None}


def test_every_status_is_waiting_running_or_final() -> None:
    assert {*WAITING, Status.RUNNING, *FINAL} == set(Status)
    assert len(WAITING) + 1 + len(FINAL) == len(Status)


def test_only_enqueue_makes_a_row_and_only_purge_removes_one() -> None:
    assert {move.verb for move in MOVES if move.source is None} == {Verb.ENQUEUE}
    assert {move.verb for move in MOVES if move.target is None} == {Verb.PURGE}


def test_purge_takes_final_jobs_only() -> None:
    assert set(sources(Verb.PURGE)) == set(FINAL)


def test_only_requeue_restore_and_purge_leave_a_final_status() -> None:
    leaving = {move.verb for move in MOVES if move.source in FINAL}
    assert leaving == {Verb.REQUEUE, Verb.RESTORE, Verb.PURGE}


def test_a_succeeded_job_is_only_ever_purged() -> None:
    assert verbs_from(Status.SUCCEEDED) == (Verb.PURGE,)


def test_only_the_claim_starts_a_job() -> None:
    starting = [m for m in MOVES if m.target is Status.RUNNING and m.source is not Status.RUNNING]

    assert [move.verb for move in starting] == [Verb.CLAIM]


def test_every_end_of_a_running_job_but_success_can_be_a_cancel() -> None:
    for verb in (Verb.FAIL, Verb.RELEASE, Verb.DEFER, Verb.CANCEL):
        ends = {move.target for move in MOVES if move.verb is verb}
        assert Status.CANCELLED in ends
    assert [move.target for move in MOVES if move.verb is Verb.SUCCEED] == [Status.SUCCEEDED]


@pytest.mark.parametrize("status", Status)
def test_verbs_from_and_sources_say_the_same(status: Status) -> None:
    allowed = {verb for verb in Verb if status in sources(verb)}

    assert allowed - set(ROW_ONLY) == set(verbs_from(status))


@pytest.mark.parametrize("verb", Verb)
def test_sources_names_each_status_once(verb: Verb) -> None:
    assert len(set(sources(verb))) == len(sources(verb))


def test_is_legal_is_true_exactly_for_the_table() -> None:
    everything = [(e, s, t) for e in Event for s in (*Status, None) for t in (*Status, None)]

    legal = [step for step in everything if is_legal(*step)]

    assert set(legal) == {(move.event, move.source, move.target) for move in MOVES}


def test_an_event_named_for_a_status_leads_to_it() -> None:
    named = {Event(status.value) for status in (*FINAL, Status.HELD)}

    for move in MOVES:
        if move.event in named:
            assert move.target == move.event.value


def test_the_check_of_the_table_knows_the_same_statuses() -> None:
    checks = [c for c in Job.__table_args__ if isinstance(c, CheckConstraint)]
    [state] = [str(check.sqltext) for check in checks if check.name == "ck_jobs_state"]

    assert set(re.findall(r"WHEN '(\w+)'", state)) == set(Status)
