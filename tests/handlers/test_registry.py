"""What @handler registers, and what it refuses at import rather than at three in the morning."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from queueapp import handlers
from queueapp.errors import SettingError
from queueapp.handlers import JobContext, Policy, configure, find, handler, kinds
from tests.handlers.conftest import make_context


class Order(BaseModel):
    number: int


def test_the_decorated_function_stays_as_it_is() -> None:
    def send(to: str) -> str:
        return f"sent to {to}"

    assert handler("mail.send")(send) is send
    assert send("ana") == "sent to ana"


def test_a_handler_is_found_with_its_defaults_and_its_docstring() -> None:
    @handler("mail.send", max_attempts=7, timeout=30)
    def send(to: str) -> None:
        """Send one mail.

        With more to say about it.
        """

    found = find("mail.send")
    assert found is not None
    assert (found.kind, found.max_attempts, found.timeout_s) == ("mail.send", 7, 30)
    assert found.about == "Send one mail."
    assert find("mail.sent") is None


def test_about_replaces_the_docstring() -> None:
    @handler("mail.send", about="One mail to one person")
    def send() -> None:
        """Something technical."""

    assert find("mail.send").about == "One mail to one person"  # type: ignore[union-attr]


def test_who_answers_for_a_kind_and_where_it_is_described_are_kept() -> None:
    where = "https://wiki.example/jobs?page=mail#send"
    handler("mail.send", owner="team mail", docs=where)(lambda: None)
    handler("mail.told")(lambda: None)

    found = [find("mail.send"), find("mail.told")]

    assert [(one.owner, one.docs) for one in found if one] == [("team mail", where), (None, None)]


@pytest.mark.parametrize(
    ("option", "value", "error"),
    [
        *(
            ("owner", value, ValueError)
            for value in ("", " ", "a" * 101, "a\nb", "a\u202eb", "\x00")
        ),
        *(("owner", value, TypeError) for value in (7, ["team"], b"team")),
        *(("docs", value, TypeError) for value in (7, b"https://a.example")),
        *(
            ("docs", value, ValueError)
            for value in (
                *(
                    "",
                    "javascript:alert(1)",
                    "JavaScript:alert(1)",
                    " https://a.example",
                    "//a.example",
                ),
                *(
                    "data:text/html,x",
                    "/wiki",
                    "wiki.example",
                    "https://",
                    "https:///a",
                    "http://:80/",
                ),
                *(
                    "https://ana:secret@a.example",
                    "https://a.example\\@b.example",
                    "ftp://a.example",
                ),
                *("https://a.example/\n", "https://a.example:x/", "https://[::1", "https://a b/"),
                "https://a.example/" + "x" * 2_000,
            )
        ),
    ],
)
def test_what_is_no_owner_and_no_page_is_refused(
    option: str, value: Any, error: type[Exception]
) -> None:
    with pytest.raises(error, match=f"^{option} must be") as refusal:
        handler("mail.send", **{option: value})
    assert "secret" not in str(refusal.value)


def test_kinds_are_listed_in_order() -> None:
    for kind in ("z.last", "a.first"):
        handler(kind)(lambda: None)
    names = [one.kind for one in kinds()]
    assert names == sorted(names)
    assert {"a.first", "z.last", "demo.echo", "http.request"} <= set(names)


@pytest.mark.parametrize(
    "kind", ["", "Mail", "1mail", "mail send", "mail/send", "mäil", "a" * 101, "mail\n", ".mail"]
)
def test_a_bad_kind_is_refused(kind: str) -> None:
    with pytest.raises(ValueError, match="is no kind"):
        handler(kind)


def test_the_decorator_without_a_kind_is_refused() -> None:
    with pytest.raises(TypeError, match="needs the kind"):
        handler(lambda: None)  # type: ignore[arg-type]


def test_a_second_handler_of_a_kind_is_refused_naming_both() -> None:
    @handler("mail.send")
    def first() -> None: ...

    with pytest.raises(ValueError, match="two handlers") as refusal:

        @handler("mail.send")
        def second() -> None: ...

    assert "first" in str(refusal.value)
    assert "second" in str(refusal.value)
    assert str(refusal.value).count("test_registry.py:") == 2


def test_registering_the_same_line_again_is_a_reload() -> None:
    def module() -> None:
        @handler("mail.send")
        def send() -> None: ...

    module()
    module()


@pytest.mark.parametrize(
    ("option", "value", "error"),
    [
        ("max_attempts", 0, ValueError),
        ("max_attempts", 10_001, ValueError),
        ("max_attempts", True, TypeError),
        ("max_attempts", "5", TypeError),
        ("timeout", -1, ValueError),
        ("timeout", 1.5, TypeError),
        ("timeout", 2**31, ValueError),
    ],
)
def test_an_unusable_default_is_refused(option: str, value: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=option):
        handler("mail.send", **{option: value})


def test_what_could_never_run_is_refused() -> None:
    async def later() -> None: ...

    async def stream() -> Any:
        yield 1

    def lazily() -> Iterator[int]:
        yield 1

    for function, words in ((later, "async"), (stream, "async"), (lazily, "generator")):
        with pytest.raises(TypeError, match=words):
            handler("mail.send")(function)
    with pytest.raises(TypeError, match="registers functions"):
        handler("mail.send")(Order)


def test_parameters_that_no_payload_can_fill_are_refused() -> None:
    def positional(to: str, /) -> None: ...
    def several(*to: str) -> None: ...
    def untyped(to) -> None: ...  # type: ignore[no-untyped-def]
    def untyped_rest(**rest) -> None: ...  # type: ignore[no-untyped-def]
    def twice(one: JobContext, two: JobContext) -> None: ...
    def unknown(to: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    for function, words in (
        (positional, "positional-only"),
        (several, "named fields"),
        (untyped, "no annotation"),
        (untyped_rest, "no annotation"),
        (twice, "two JobContext"),
        (unknown, "'Nowhere' is not known at run time"),
    ):
        with pytest.raises(TypeError, match=words) as refusal:
            handler("mail.send")(function)
        assert function.__name__ in str(refusal.value)
    assert find("mail.send") is None


def test_a_type_that_pydantic_cannot_check_is_refused() -> None:
    def opaque(to: Receiverless) -> None: ...

    with pytest.raises(TypeError, match="cannot fill this type"):
        handler("mail.send")(opaque)


class Receiverless:
    """Neither a JSON type nor a model."""


def test_the_context_is_injected_under_any_name() -> None:
    @handler("mail.send")
    def send(to: str, attempt: JobContext, copies: int = 1) -> tuple[str, JobContext, int]:
        return to, attempt, copies

    context = make_context()
    assert find("mail.send").call(context, {"to": "ana"}) == ("ana", context, 1)  # type: ignore[union-attr]


def test_a_module_of_queue_handlers_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_handlers_a.py").write_text(
        "from __future__ import annotations\n"
        "from queueapp import JobContext, handler\n\n"
        "@handler('own.kind')\n"
        "def own(ctx: JobContext, to: str) -> str:\n"
        "    return to\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    configure(Policy(handlers=("own_handlers_a",)))
    assert find("own.kind").check({"to": "ana"}) == {"to": "ana"}  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (None, "ModuleNotFoundError"),
        ("def broken(:\n", "SyntaxError"),
        ("import nowhere_to_be_found\n", "nowhere_to_be_found"),
        ("raise RuntimeError('no such region')\n", "no such region"),
    ],
)
def test_a_module_that_does_not_import_is_named_with_its_setting(
    source: str | None, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if source is not None:
        (tmp_path / "own_handlers_b.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(SettingError, match="QUEUE_HANDLERS: cannot import 'own_handlers_b'") as bad:
        configure(Policy(handlers=("own_handlers_b",)))
    assert words in bad.value.message


def test_configure_puts_the_policy_into_force() -> None:
    configure(Policy(max_attempts=9))
    assert handlers.current().max_attempts == 9


@pytest.mark.parametrize("host", ["*", "https://example.com", "a@b", "example.com/x", "h:0", "h:x"])
def test_an_unusable_allowed_host_is_named(host: str) -> None:
    with pytest.raises(SettingError, match="QUEUE_HTTP_ALLOWED_HOSTS"):
        configure(Policy(http_allowed_hosts=("example.com", host)))
