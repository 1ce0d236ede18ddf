"""Every field of a request: what is taken, what is refused, and that all problems come at once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from queueapp.errors import InvalidJob, UnknownKind
from queueapp.handlers import EnqueueRequest, Policy, configure, enqueue_many, handler
from queueapp.handlers.json_limits import LONGEST_PAYLOAD
from queueapp.handlers.problems import MOST_PROBLEMS
from queueapp.handlers.request import instant, request_problems

# Where nothing is valid, no session is needed to say so.
NO_SESSION: Any = None


@pytest.fixture(autouse=True)
def mail_send() -> None:
    @handler("mail.send")
    def send(to: str, copies: int = 1) -> None: ...


def problems(**fields: Any) -> dict[str, str]:
    given = {"kind": "mail.send", "payload": {"to": "ana"}, **fields}
    return {one["pointer"]: one["detail"] for one in request_problems(EnqueueRequest(**given))}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"priority": -32768},
        {"priority": 32767},
        {"max_attempts": 1},
        {"max_attempts": 10_000},
        {"timeout": 0},
        {"delay": 0},
        {"delay": 0.5},
        {"delay": timedelta(days=1)},
        {"available_at": "2026-01-31T08:00:00Z"},
        {"available_at": "2026-01-31t08:00:00.123456789+02:00"},
        {"available_at": datetime(2026, 1, 31, tzinfo=UTC)},
        {"key": "k"},
        {"key": "ü😀 k\n" * 40},
    ],
)
def test_these_are_taken(fields: dict[str, Any]) -> None:
    assert problems(**fields) == {}


ODD_NUMBERS = [2**31, -(2**31) - 1, 2**63, 1e3, 5.0, 5.5, "5", "", True, None, [], {}]


@pytest.mark.parametrize("value", [*ODD_NUMBERS, 32768, -32769])
def test_an_odd_priority_is_refused(value: Any) -> None:
    assert list(problems(priority=value)) == ["/priority"]


@pytest.mark.parametrize("value", [*ODD_NUMBERS, 0, 10_001])
def test_odd_max_attempts_are_refused(value: Any) -> None:
    assert list(problems(max_attempts=value)) == ["/max_attempts"]


@pytest.mark.parametrize("value", [*ODD_NUMBERS, -1])
def test_an_odd_timeout_is_refused(value: Any) -> None:
    assert list(problems(timeout=value)) == ["/timeout"]


@pytest.mark.parametrize(
    "value",
    [-1, -0.001, float("nan"), float("inf"), 10**10, 10**400, True, "5", None, [], timedelta(-1)],
)
def test_an_odd_delay_is_refused(value: Any) -> None:
    assert list(problems(delay=value)) == ["/delay"]


@pytest.mark.parametrize(
    "value",
    [
        "",
        "tomorrow",
        "2030-01-31",
        "2030-01-31T08:00:00",
        "2030-W05-4T08:00:00Z",
        "2030-02-30T08:00:00Z",
        "2030-01-31T25:00:00Z",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-14:00",
        "2026-01-31T08:00:00+99:99",
        datetime(2026, 1, 31),  # noqa: DTZ001
        datetime.now(UTC) + timedelta(days=3660),
        5,
        True,
        None,
        [],
    ],
)
def test_an_odd_available_at_is_refused(value: Any) -> None:
    assert list(problems(available_at=value)) == ["/available_at"]


def test_delay_and_available_at_exclude_each_other() -> None:
    found = problems(delay=5, available_at="2026-01-31T08:00:00Z")
    assert found == {"/delay": "give either delay or available_at"}


@pytest.mark.parametrize(
    "value", ["", " ", "\n", "k" * 201, "a\x00b", "\ud800", 1, True, None, [], {}]
)
def test_an_odd_key_is_refused(value: Any) -> None:
    assert list(problems(key=value)) == ["/key"]


@pytest.mark.parametrize("value", ["", "Mail", "a" * 101, "a\x00", "mail.send\n", 1, None, [], {}])
def test_an_odd_kind_is_refused(value: Any) -> None:
    assert list(problems(kind=value)) == ["/kind"]


@pytest.mark.parametrize("payload", [None, [], "x", 1, True])
def test_a_payload_that_is_no_object_is_refused(payload: Any) -> None:
    assert problems(payload=payload) == {"/payload": "must be an object"}


def test_an_instant_is_the_same_in_every_zone() -> None:
    berlin = timezone(timedelta(hours=2))
    assert instant(datetime(2026, 6, 1, 10, tzinfo=berlin)) == instant("2026-06-01T08:00:00Z")


def nested(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "place", "words"),
    [
        ("a\x00b", "/payload/to", "NUL"),
        (["a", "\x00"], "/payload/to/1", "NUL"),
        ({"x\x00y": 1}, "/payload/to/x\\x00y", "the name contains a NUL"),
        ("\ud83d", "/payload/to", "lone surrogate"),
        ({"\udc00": 1}, "/payload/to/\\udc00", "lone surrogate"),
        (float("nan"), "/payload/to", "finite"),
        ([[float("-inf")]], "/payload/to/0/0", "finite"),
        (10**400, "/payload/to", "too large"),
        ({1: 2}, "/payload/to", "not text"),
        (b"x", "/payload/to", "bytes"),
        ({1, 2}, "/payload/to", "set"),
        (datetime(2026, 1, 1, tzinfo=UTC), "/payload/to", "datetime"),
        (nested(32), "/payload/to" + "/0" * 31, "deeper than 32"),
        ("x" * LONGEST_PAYLOAD, "/payload", "256 KiB"),
        (["ü" * 1024] * 130, "/payload", "256 KiB"),
    ],
)
def test_what_could_not_be_stored_is_refused_with_its_place(
    value: Any, place: str, words: str
) -> None:
    found = problems(payload={"to": value})
    assert list(found) == [place]
    assert words in found[place]


def test_what_only_looks_like_a_nul_is_harmless() -> None:
    assert problems(payload={"to": "\\u0000"}) == {}


def test_the_limits_themselves_are_allowed() -> None:
    configure(Policy(external_kinds=("other.kind",)))
    assert problems(kind="other.kind", payload={"a": nested(31)}) == {}
    frame = len('{"a":""}')
    assert problems(kind="other.kind", payload={"a": "x" * (LONGEST_PAYLOAD - frame)}) == {}
    assert list(
        problems(kind="other.kind", payload={"a": "x" * (LONGEST_PAYLOAD - frame + 1)})
    ) == ["/payload"]


def test_a_payload_that_contains_itself_is_refused_at_once() -> None:
    loop: dict[str, Any] = {}
    loop["a"] = loop["b"] = loop
    found = problems(payload=loop)
    assert found
    assert len(found) <= MOST_PROBLEMS


def test_a_small_structure_that_would_unfold_without_end_is_refused_at_once() -> None:
    value: Any = 1
    for _ in range(28):
        value = [value, value, value]
    assert problems(payload={"to": value}) == {"/payload": "larger than 256 KiB as compact JSON"}


def test_the_number_of_problems_of_a_payload_is_bounded() -> None:
    assert len(problems(payload={str(place): "\x00" for place in range(1000)})) == MOST_PROBLEMS


def test_the_handlers_check_is_part_of_it() -> None:
    assert list(problems(payload={"to": 5, "copy": 1})) == ["/payload/to", "/payload/copy"]
    assert problems(payload={"copies": 1}) == {"/payload/to": "required"}


def test_all_problems_of_all_jobs_come_at_once() -> None:
    with pytest.raises(InvalidJob) as refusal:
        enqueue_many(
            NO_SESSION,
            [
                EnqueueRequest(kind="mail.send", payload={"to": "ana"}),
                EnqueueRequest(kind="nobody.knows", priority=True, delay=-1),
                EnqueueRequest(kind="mail.send", payload={"to": 1}, key=""),
            ],
        )
    pointers = [one["pointer"] for one in refusal.value.context["errors"]]
    assert pointers == ["/1/kind", "/1/priority", "/1/delay", "/2/key", "/2/payload/to"]
    assert refusal.value.status == 422
    assert not isinstance(refusal.value, UnknownKind)


def test_an_unknown_kind_has_an_error_of_its_own() -> None:
    with pytest.raises(UnknownKind, match=r"nobody\.knows") as refusal:
        enqueue_many(NO_SESSION, [EnqueueRequest(kind="nobody.knows")])
    assert refusal.value.context["kinds"] == ["nobody.knows"]


def test_external_and_accepted_kinds_take_any_object() -> None:
    configure(Policy(external_kinds=("mail.legacy",)))
    assert problems(kind="mail.legacy", payload={"any": ["thing"]}) == {}
    assert list(problems(kind="nobody.knows")) == ["/kind"]
    configure(Policy(accept_unknown_kinds=True))
    assert problems(kind="nobody.knows", payload={"any": ["thing"]}) == {}


def test_no_value_is_said_back() -> None:
    secret = "hunter2-s3cret"
    names = ("kind", "payload", "priority", "delay", "available_at", "max_attempts", "timeout")
    found = problems(key=[secret], **dict.fromkeys(names, secret))
    assert len(found) == 8
    assert secret not in str(found)
