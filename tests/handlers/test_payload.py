"""The signature is the check: what fits, what does not, and where the misfit is said to be."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, field_validator

from queueapp.errors import InvalidJob
from queueapp.handlers import Handler, find, handler
from tests.handlers.conftest import make_context


class Colour(Enum):
    RED = "red"


class Cat(BaseModel):
    sort: Literal["cat"]
    lives: int


class Dog(BaseModel):
    sort: Literal["dog"]


class Order(BaseModel):
    number: int
    day: date | None = None


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    number: int


class Careful(BaseModel):
    password: str

    @field_validator("password")
    @classmethod
    def _long_enough(cls, value: str) -> str:
        raise ValueError(f"{value} is too short" if value != "tell" else "must be longer")


def registered(function: Any) -> Handler:
    handler("test.kind")(function)
    found = find("test.kind")
    assert found is not None
    return found


def errors_of(made: Handler, payload: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(InvalidJob) as refusal:
        made.check(payload)
    return {one["pointer"]: one["detail"] for one in refusal.value.context["errors"]}


def test_fields_may_have_the_names_that_models_reserve() -> None:
    def send(json: str, copy: int, schema: bool, self_: str = "x") -> None: ...

    payload = {"json": "a", "copy": 1, "schema": True}
    assert registered(send).check(payload) == payload


def test_rich_types_are_made_from_json() -> None:
    def send(
        at: datetime, colour: Colour, pair: tuple[int, str], share: float, tags: set[str]
    ) -> None: ...

    payload = {"at": "2030-01-31T08:00:00Z", "colour": "red", "pair": [1, "a"], "share": 1}
    checked = registered(send).check({**payload, "tags": ["a"]})
    assert checked["at"] == datetime(2030, 1, 31, 8, tzinfo=UTC)
    assert (checked["colour"], checked["pair"], checked["tags"]) == (Colour.RED, (1, "a"), {"a"})


@pytest.mark.parametrize(
    ("hint", "value"),
    [(int, "5"), (int, 5.5), (int, True), (str, 5), (bool, 1), (float, "1"), (list[int], "12")],
)
def test_nothing_is_guessed(hint: Any, value: Any) -> None:
    def send(field: Any) -> None: ...

    send.__annotations__["field"] = hint
    assert list(errors_of(registered(send), {"field": value})) == ["/payload/field"]


def test_every_problem_is_reported_with_its_place() -> None:
    def send(to: str, copies: list[int], order: Order, missing: int) -> None: ...

    payload = {"to": 1, "copies": [1, "x"], "order": {"number": "1", "day": None}, "a/b~c": 1}
    assert list(errors_of(registered(send), payload)) == [
        "/payload/to",
        "/payload/copies/1",
        "/payload/order/number",
        "/payload/missing",
        "/payload/a~1b~0c",
    ]


def test_branches_of_a_union_are_no_part_of_the_place() -> None:
    def send(
        to: int | list[int], pet: Annotated[Cat | Dog, Field(discriminator="sort")]
    ) -> None: ...

    found = errors_of(registered(send), {"to": "x", "pet": {"sort": "cat", "lives": "nine"}})
    assert list(found) == ["/payload/to", "/payload/pet/lives"]


def test_unknown_fields_are_refused() -> None:
    def send(to: str) -> None: ...

    assert errors_of(registered(send), {"to": "ana", "subjct": 1}) == {
        "/payload/subjct": "unknown field"
    }


def test_a_handler_without_fields_takes_the_empty_payload_only() -> None:
    def tidy() -> None: ...

    assert registered(tidy).check({}) == {}
    assert list(errors_of(registered(tidy), {"a": 1})) == ["/payload/a"]


def test_keyword_rest_takes_the_unknown_fields_and_checks_their_type() -> None:
    def count(first: str, **rest: int) -> dict[str, int]:
        return rest

    made = registered(count)
    assert made.call(make_context(), {"first": "a", "x": 1, "y": 2}) == {"x": 1, "y": 2}
    assert list(errors_of(made, {"first": "a", "x": "one"})) == ["/payload/x"]


def test_the_only_model_is_the_payload() -> None:
    def bill(order: Order) -> Order:
        return order

    made = registered(bill)
    assert made.call(make_context(), {"number": 3, "day": "2030-01-31"}) == Order(
        number=3, day=date(2030, 1, 31)
    )
    assert errors_of(made, {"number": 3, "dey": 1}) == {"/payload/dey": "unknown field"}


def test_a_model_decides_itself_about_unknown_fields() -> None:
    def bill(order: Open) -> Open:
        return order

    assert registered(bill).call(make_context(), {"number": 1, "more": 2}).model_extra == {
        "more": 2
    }


def test_a_model_among_others_is_a_field() -> None:
    def bill(order: Order, copies: int = 1) -> int:
        return order.number

    assert registered(bill).call(make_context(), {"order": {"number": 3}}) == 3


def test_no_value_is_ever_said_back() -> None:
    def send(
        account: Careful,
        pet: Annotated[Cat | Dog, Field(discriminator="sort")],
        pin: Literal["0000"],
        day: date,
    ) -> None: ...

    secret = "hunter2-s3cret"
    payload = {"account": {"password": secret}, "pet": {"sort": secret}, "pin": secret}
    with pytest.raises(InvalidJob) as refusal:
        registered(send).check({**payload, "day": secret})
    assert len(refusal.value.context["errors"]) == 4
    assert secret not in json.dumps(refusal.value.context)
    assert secret not in refusal.value.message
    assert refusal.value.__cause__ is None
    assert refusal.value.__suppress_context__


def test_a_handlers_own_words_are_kept_when_they_tell_nothing() -> None:
    def send(account: Careful) -> None: ...

    found = errors_of(registered(send), {"password": "tell"})
    assert found == {"/payload/password": "must be longer"}


def test_the_payload_is_checked_again_before_the_call() -> None:
    ran = []

    def send(to: str) -> None:
        ran.append(to)

    with pytest.raises(InvalidJob):
        registered(send).call(make_context(), {"to": 5})
    assert ran == []


def test_the_schema_names_fields_defaults_and_closedness() -> None:
    def send(to: str, copies: int = 2, note: str | None = None) -> None: ...

    schema = registered(send).schema()
    assert schema["required"] == ["to"]
    assert schema["properties"]["copies"]["default"] == 2
    assert schema["additionalProperties"] is False


def test_the_schema_of_a_model_is_closed_unless_it_says_otherwise() -> None:
    def bill(order: Order) -> None: ...
    def bill_open(order: Open) -> None: ...

    assert registered(bill).schema()["additionalProperties"] is False
    handler("test.open")(bill_open)
    assert find("test.open").schema()["additionalProperties"] is True  # type: ignore[union-attr]
