"""docs/handlers.md: its examples run, and its tables name every field that there is."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.orm import Session

from queueapp.errors import InvalidJob
from queueapp.handlers import Fail, JobContext, Policy, Retry, configure, find, kinds, load
from tests.handlers.conftest import make_context

PAGE = (Path(__file__).parents[2] / "docs" / "handlers.md").read_text(encoding="utf-8")

load()
BUILT_IN = [one.kind for one in kinds() if one.kind.startswith(("demo.", "http."))]


def examples(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def run_examples() -> dict[str, Any]:
    known: dict[str, Any] = {"__name__": "shop.jobs"}
    for number, source in enumerate(examples("python")):
        exec(compile(source, f"docs/handlers.md example {number + 1}", "exec"), known)
    return known


def call(kind: str, payload: dict[str, Any]) -> Any:
    found = find(kind)
    assert found is not None
    return found.call(make_context(kind=kind), payload)


def test_the_examples_do_what_the_page_says(context: JobContext) -> None:
    run_examples()
    assert call("mail.send", {"to": "ana", "subject": "Hello"}) == {"sent": 1}
    until = "2030-01-31T08:00:00Z"
    assert call("report.build", {"customer": 7, "until": until}) == "report-7.pdf"
    assert call("invoice.print", {"number": 1, "lines": ["a", "b"]}) == 2
    assert call("photos.resize", {"photos": ["a", "b"]}) == 2
    with pytest.raises(Fail):
        call("account.sync", {"account": 0})
    with pytest.raises(Retry):
        call("account.sync", {"account": 1})


def test_the_examples_enqueue(session: Session) -> None:
    known = run_examples()
    assert known["place_order"](session, 7) == known["place_order"](session, 7)
    context = make_context(open_session=lambda _stop: session)
    found = find("order.pay")
    assert found is not None
    found.call(context, {"order": 7})


def test_the_webhook_example_fits_its_kind() -> None:
    configure(Policy(http_allowed_hosts=("hooks.example.com",)))
    (source,) = examples("json")
    found = find("http.request")
    assert found is not None
    assert found.check(json.loads(source))["url"].startswith("https://hooks.example.com/")


@pytest.mark.parametrize("kind", BUILT_IN)
def test_every_field_of_every_built_in_kind_is_documented(kind: str) -> None:
    found = find(kind)
    assert found is not None
    about = PAGE.split("## Built-in kinds")[1]
    if kind.startswith("demo."):
        about = next(line for line in about.splitlines() if line.startswith(f"| `{kind}`"))
    for field in found.schema()["properties"]:
        assert f"`{field}`" in about


def test_every_member_of_the_context_is_documented() -> None:
    workers_own = {"interrupt", "take_progress", "has_session"}
    public = {name for name in dir(make_context()) if not name.startswith("_")}
    for name in public - workers_own:
        assert f"`ctx.{name}" in PAGE


def test_a_misspelt_field_is_refused_as_the_page_says() -> None:
    run_examples()
    with pytest.raises(InvalidJob):
        call("mail.send", {"to": "ana", "subjct": "Hello"})
