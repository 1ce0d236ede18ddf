"""docs/api.md says what the code does: routes and roles, fields, parameters, codes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import get_args

from flask import Flask

from queueapp import shared
from queueapp.api import LARGEST_BODY, describe, lease_schemas
from queueapp.api.acting_schemas import ReleaseBody, RescheduleBody
from queueapp.api.list_schemas import JobsQuery
from queueapp.api.operation_model import Operation
from queueapp.api.operation_schemas import OperationBody, OperationFilter
from queueapp.api.operations import MOST_BATCHES
from queueapp.api.schemas import EventsQuery, JobBody
from queueapp.api.verdict import Verdict
from queueapp.auth import Permission, Role
from queueapp.auth.access import declared
from queueapp.auth.roles import GRANTS
from queueapp.jobs import operations, verdict
from queueapp.jobs.operations import BATCH
from queueapp.jobs.verdict import reading
from queueapp.jobs.why import RULES

TEXT = (Path(__file__).parents[2] / "docs" / "api.md").read_text()


def section(title: str) -> str:
    return TEXT.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def first_column(text: str) -> set[str]:
    cells = re.findall(r"^\| (`[^|]+) \|", text, re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def test_every_role_has_what_the_table_says(app: Flask) -> None:
    rows = re.findall(r"^\| `([A-Z]+ /api[^`]+)` \|(.+)\|$", section("Who may call"), re.MULTILINE)
    told = {route: [cell.strip() for cell in cells.split("|")] for route, cells in rows}

    found = {}
    for rule in app.url_map.iter_rules():
        permission = declared(app, rule.endpoint)
        if rule.rule.startswith("/api/") and permission is not None:
            for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}:
                found[f"{method} {rule.rule}"] = [_reach(permission, role) for role in Role]
    assert found == told


def _reach(permission: Permission, role: Role) -> str:
    if role not in GRANTS[permission]:
        return "no"
    whole = {Permission.READ_OWN: Permission.READ, Permission.CANCEL: Permission.ACT}
    return "yes" if role in GRANTS[whole.get(permission, permission)] else "its own"


def test_every_field_and_parameter_is_documented() -> None:
    assert first_column(section("Create a job")) >= set(JobBody.model_fields)
    assert first_column(section("A job")) == set(describe.WHOLE)
    assert first_column(section("List jobs")) == set(JobsQuery.model_fields)
    for name in (*EventsQuery.model_fields, *describe.EVENT):
        assert f"`{name}`" in section("The history of a job")


def test_every_field_of_leases_is_documented() -> None:
    told = section("Workers in any language")
    ends = (lease_schemas.Succeed, lease_schemas.Fail, lease_schemas.Defer, lease_schemas.Release)
    models = (lease_schemas.RenewBody, lease_schemas.Report, *ends)

    assert first_column(told) >= set(lease_schemas.LeaseBody.model_fields)
    for name in {name for model in models for name in model.model_fields}:
        assert f"`{name}`" in told
    for end in ends:
        assert f"| `{get_args(end.model_fields['verb'].annotation)[0]}` |" in told


def test_every_field_of_operations_is_documented() -> None:
    told = section("Many jobs at once")

    assert first_column(told) == set(OperationBody.model_fields) | set(Operation.model_fields)
    for name in (*OperationFilter.model_fields, *operations.VERBS):
        assert f"`{name}`" in told
    assert f"{BATCH} in a transaction" in told
    assert f"{BATCH * MOST_BATCHES:,} jobs" in told


def test_every_field_of_moves_is_documented() -> None:
    told = section("Hold, reschedule, release")

    for name in (*RescheduleBody.model_fields, *ReleaseBody.model_fields):
        assert f"`{name}`" in told


def test_the_limits_are_those_of_the_code() -> None:
    assert LARGEST_BODY == 1024 * 1024
    assert "1 MiB" in section("Limits")


def test_the_verdict_is_the_one_that_is_documented() -> None:
    [found] = re.findall(r"```json\n(.+?)```", section("Is the queue well?"), re.DOTALL)
    example = json.loads(found)
    rule = next(rule for rule in verdict.RULES if rule.code == example["rule"])

    assert set(example) == set(Verdict.model_fields)
    assert set(example["evidence"]) == set(rule.fields)
    assert (example["title"], example["level"] in rule.levels) == (rule.title, True)


def test_what_to_do_is_said_of_every_rule() -> None:
    page = (Path(__file__).parents[2] / "docs" / "verdict.md").read_text()
    told = page.partition("## What to do")[2].partition("## Thresholds")[0].lower()

    assert [rule.code for rule in verdict.RULES if rule.title.lower() not in told] == []
    assert f"{shared.OLD_S:.0f} s" in page
    assert f"stops after {reading.READING_S:.0f} s" in page


def test_the_why_answer_is_the_one_that_is_documented() -> None:
    [found] = re.findall(r"```json\n(.+?)```", section("Why a job waits"), re.DOTALL)
    example = json.loads(found)
    rule = next(rule for rule in RULES if rule.code == example["rule"])
    page = (Path(__file__).parents[2] / "docs" / "why.md").read_text()
    beside = re.findall(r"`(\w+)`", page.partition("in the way as well (")[2].partition(")")[0])

    assert set(example["evidence"]) == set(rule.fields)
    assert example["next_step"] == rule.next_step
    assert beside == [rule.code for rule in RULES if rule.blocks]
