"""Is the queue well? The same verdict that the console's banner shows."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from flask import Blueprint, Response, request
from pydantic import Field

from queueapp import judgement
from queueapp.api.contract import Answer, Example, Part, contract
from queueapp.api.describe import deep, instant, json_answer
from queueapp.api.model import Model
from queueapp.application import this_app
from queueapp.auth import Permission, permits
from queueapp.jobs.verdict import Finding, Level
from queueapp.judgement import Look

bp = Blueprint("api_verdict", __name__, url_prefix="/api")


def _says(about: str) -> Any:
    return Field(description=about)


class FindingAnswer(Model):
    """What one rule found."""

    rule: Annotated[str, _says("Which rule; the list of rules grows.")]
    title: Annotated[str, _says("The same in words.")]
    level: Annotated[Level, _says("How bad it is; what is not known is never green.")]
    sentence: Annotated[str, _says("The cause with its numbers, for people.")]
    since: Annotated[datetime | None, _says("Since when; null: not known, or nothing is wrong.")]
    next_step: Annotated[str, _says("What to do next, for people.")]
    next_path: Annotated[str | None, _says("The page of the console that helps.")]
    evidence: Annotated[dict[str, Any], _says("The numbers, by the name of the rule.")]


class Verdict(FindingAnswer):
    """The first rule that applies, and what the others found."""

    also: Annotated[list[FindingAnswer], _says("The others, in the order of the rules.")]
    notes: Annotated[list[str], _says("What is no fault and has to be known with it, for people.")]
    as_of: Annotated[datetime, _says("The database's clock when it was looked at.")]
    age_s: Annotated[float, _says("How old the look is: 2 s at most while the database answers.")]


@bp.get("/verdict")
@permits(Permission.READ)
@contract(
    Part.QUEUE,
    {200: Answer("The verdict; also while the database does not answer.", Verdict)},
    asks_database=False,
    examples=(Example("Is the queue well?"),),
)
def verdict() -> Response:
    """Say whether the queue is well, with the evidence and the next step."""
    return json_answer(described(judgement.present(this_app()), request.script_root))


def described(look: Look, root: str = "") -> dict[str, Any]:
    """The verdict as JSON. ``root``: under which the application is mounted."""
    found = look.verdict
    return {
        **_finding(found.first, root),
        "also": [_finding(one, root) for one in found.others],
        "notes": list(found.notes),
        "as_of": instant(found.as_of),
        "age_s": round(look.age_s, 3),
    }


def _finding(one: Finding, root: str) -> dict[str, Any]:
    path = judgement.page_of(this_app(), one.step.paths)
    return {
        "rule": one.rule,
        "title": one.title,
        "level": one.level,
        "sentence": one.sentence,
        "since": one.since and instant(one.since),
        "next_step": one.step.text,
        "next_path": None if path is None else root + path,
        "evidence": deep(one.evidence),
    }
