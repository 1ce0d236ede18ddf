"""The one way to refuse a request for what stands in it: each problem with its place."""

from __future__ import annotations

from queueapp.errors import InvalidRequest
from queueapp.handlers.problems import Place, Problem, problem


def invalid(problems: list[Problem]) -> InvalidRequest:
    """The refusal that lists ``problems``, one at least; its sentence is the first of them."""
    return InvalidRequest(sentence_of(problems), errors=problems)


def invalid_at(place: Place, detail: str) -> InvalidRequest:
    """The refusal of what stands at ``place``, such as ``("filter", "status")``."""
    return invalid([problem(place, detail)])


def sentence_of(problems: list[Problem]) -> str:
    """The first of ``problems`` in a sentence: its pointer and what is wrong there."""
    return f"{problems[0]['pointer']} {problems[0]['detail']}".strip()
