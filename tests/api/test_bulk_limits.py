"""What one bulk request may cost: how much is parsed, and how much is said about it."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import pytest

from queueapp.api import bulk
from queueapp.api.bulk_items import LONGEST_LINE, Bad, Good, item_of_line, lines_of
from queueapp.api.strict_json import parse, parse_array
from queueapp.errors import QueueError
from queueapp.handlers.problems import MOST_PROBLEMS
from tests.api.conftest import Api, body, pointers, problem

ECHO = {"kind": "demo.echo"}
JSON = "application/json"
UNKNOWN = {**ECHO, **{f"f{place:05}": 0 for place in range(80_000)}}


def test_nothing_is_parsed_behind_the_first_job_too_many(api: Api) -> None:
    answer = api.post("/bulk", data=b"[" + b"[]," * 5001 + b"no JSON", content_type=JSON)

    assert problem(answer) == (422, "invalid_request")
    assert pointers(answer) == ["/5000"]


@pytest.mark.parametrize("item", [b"[" + b"[]," * 400_000, b'"' + b"x" * 1_200_000, b"1" * 2**21])
def test_nothing_is_parsed_behind_the_length_of_a_job(api: Api, item: bytes) -> None:
    whole = b"[1," + item + b" " * 2 * LONGEST_LINE + b"no JSON"

    answer = api.post("/bulk", data=whole, content_type=JSON)

    assert problem(answer) == (422, "invalid_request")
    assert pointers(answer) == ["/1"]


def said_of(read: Callable[[], Any]) -> Any:
    try:
        return repr(read())
    except QueueError as error:
        return type(error), error.message


@pytest.mark.parametrize("unit", [4, 1000])
@pytest.mark.parametrize(
    "text",
    [
        "[]", " [ ] ", '[1,"a\\"]",\n{"b":[NaN]}]\n', '["é🔑","\\ud83d\\udd11"]', "[[[[]]]]",
        "", "[", "[1", "[1,", "[1,]", "[,1]", "[1 2]", "[1]]", "[1] x", "[tru]", '["a]', "[1\x0b]",
        '["\\u12"]', '["\\x"]', '["\n"]', '[1,\n{"b":2,}]', "]", "[1}", "\ufeff[]",
        "[" + "1" * 500 + "]", '["' + "ab" * 999 + '"]',
    ],
    ids=lambda value: ascii(value)[:30],
)  # fmt: skip
def test_an_array_is_read_item_by_item_as_it_is_as_a_whole(text: str, unit: int) -> None:
    raw = text.encode()

    # The window moves more often the shorter an item may be.
    longest = unit if len(text) < 40 else 2000
    found = said_of(lambda: list(parse_array(raw, longest)))

    assert found == said_of(lambda: parse(raw)) or "longer than 4 characters" in found[1]


def test_refusals_inside_an_array_name_the_item(api: Api) -> None:
    for item, pointer in (
        (b'{"payload": {"a": 1, "a": 2}}', "/1/payload/a"),
        (b"[" * 200_000, "/1"),
        (b"1" * 5000, "/1"),
    ):
        answer = api.post("/bulk", data=b"[{}," + item + b"]", content_type=JSON)

        assert problem(answer) == (422, "invalid_request")
        assert pointers(answer) == [pointer]


def test_of_very_many_problems_of_a_job_the_first_are_told(api: Api) -> None:
    unknown = [f"/f{place:05}" for place in range(MOST_PROBLEMS)]

    alone = api.post(json=UNKNOWN)
    atomic = api.post("/bulk", json=[UNKNOWN])
    each = api.post("/bulk?atomic=false", json=[UNKNOWN])

    assert pointers(alone) == [*unknown, ""]
    assert body(alone)["errors"][-1]["detail"] == "79980 more problems are not listed"
    assert pointers(atomic) == [*(f"/0{one}" for one in unknown), "/0"]
    assert body(each)["items"][0]["problem"]["errors"] == body(alone)["errors"]


def test_of_very_many_problems_of_a_payload_the_first_are_told(api: Api) -> None:
    payload = {"message": "x", **{f"f{place}": 0 for place in range(10_000)}}

    for fields, count in (({}, 10_000), ({"bogus": 1}, 10_001)):
        answer = api.post(json={**ECHO, "payload": payload, **fields})

        assert problem(answer) == (422, "invalid_job")
        assert len(pointers(answer)) == MOST_PROBLEMS + 1
        rest = f"{count - MOST_PROBLEMS} more problems are not listed"
        assert body(answer)["errors"][-1] == {"pointer": "", "detail": rest}


@pytest.mark.parametrize("form", ["array", "lines"])
def test_of_very_many_bad_jobs_each_says_one_problem(
    api: Api, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.setattr(bulk, "MOST_KEPT", 5)
    texts = [json.dumps({**ECHO, "a": 1, "b": 1, "c": 1})] * 10
    sent, kind = f"[{','.join(texts)}]", JSON
    if form == "lines":
        sent, kind = "\n".join(texts), "application/x-ndjson"

    answer = api.post("/bulk?atomic=false", data=sent.encode(), content_type=kind)

    assert [len(one["problem"]["errors"]) for one in body(answer)["items"]] == [3, 3] + [1] * 8


@pytest.mark.parametrize("mib", [3, 5])
def test_a_line_of_any_length_is_one_job(api: Api, mib: int) -> None:
    long = json.dumps({**ECHO, "payload": {"message": "x" * mib * 2**20}})

    answer = api.post(
        "/bulk?atomic=false",
        data="\n".join([json.dumps(ECHO), long, json.dumps(ECHO)]).encode(),
        content_type="application/x-ndjson",
    )

    items = body(answer)["items"]
    assert [one["outcome"] for one in items] == ["new", "invalid", "new"]
    assert "longer than 1024 KiB" in items[1]["problem"]["detail"]


def test_what_follows_the_length_of_a_line_is_never_cut_off_in_silence() -> None:
    """Carriage returns end no line: what stands behind them belongs to it."""
    whole = json.dumps(ECHO).encode().ljust(LONGEST_LINE)

    [long, short] = lines_of(io.BytesIO(whole + b"\r\rmore\n" + whole + b"\r\n"))

    assert isinstance(item_of_line(long), Bad)
    assert isinstance(item_of_line(short), Good)
