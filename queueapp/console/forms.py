"""Forms that come back: what was typed is kept, and what is wrong stands beside its field.

A route raises ``Unfit`` before anything is done, catches it, and shows its question once more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from flask import Response, request

from queueapp.console.answers import render, wants_panel
from queueapp.errors import InvalidRequest, QueueError

# Tells the script that the answer is the form, so the dialog stays open.
AGAIN = "Queue-Form"


class Unfit(InvalidRequest):
    """A field of a form that cannot be taken; the message says what can. ``field``: its name."""

    title = "The form is not filled in right"

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class Problem(str):
    """Why a filter can match nothing, in a sentence. ``field``: what it is about, or nothing."""

    field: str

    def __new__(cls, sentence: str, field: str = "") -> Problem:
        made = super().__new__(cls, sentence)
        made.field = field
        return made


@dataclass(frozen=True)
class Form:
    """What was typed, and by the name of its field what is wrong with it; nothing at first."""

    typed: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    wrong: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    status: int = 200

    def value(self, name: str, default: str = "") -> str:
        """What stands in a field: what was typed, or at first ``default``."""
        return self.typed.get(name, default)


FRESH = Form()


def again(error: QueueError, name: str) -> Form:
    """The form of this request with ``error`` beside the field ``name``."""
    said = f"{error.message[:1].upper()}{error.message[1:]}"
    said += "" if said.endswith((".", "?")) else "."
    return Form(request.form, {name: said}, error.status)


def refilled(error: Unfit) -> Form:
    """The form of this request with ``error`` beside its field."""
    return again(error, error.field)


def shown(name: str, form: Form = FRESH, **context: Any) -> Response:
    """The page ``name`` with ``form`` in it, or its panel, or what the dialog shows once more."""
    panel = wants_panel() or (bool(form.wrong) and "HX-Request" in request.headers)
    if form.wrong:
        # Nothing may be drawn over what was typed.
        context = {"still": True, "ptag": "", **context}
    body = render(name, panel=panel, form=form, **context)
    headers = {"Cache-Control": "no-store"}
    if form.wrong:
        headers[AGAIN] = "again"
        if panel and not request.headers.get("HX-Target", "").endswith("#panel"):
            body = f'<div hx-swap-oob="innerHTML:#dialog-body">{body}</div>'
    return Response(body, form.status, headers, mimetype="text/html")
