"""Entries of QUEUE_TOKENS and the header that shows a token."""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path

import pytest

from queueapp.auth.limits import Limits
from queueapp.auth.people import read_people
from queueapp.auth.tokens import bearer_of, entry_of, holder_of, new_token, read_tokens
from queueapp.errors import SettingError

DIGEST = hashlib.sha256(b"s3cret").hexdigest()
OTHER = hashlib.sha256(b"new").hexdigest()


def test_every_entry_becomes_a_principal() -> None:
    shop, ops = read_tokens(f"shop:producer:{OTHER}\n ops:admin:{DIGEST.upper()} ")

    assert (shop.principal.actor, shop.principal.producer) == ("token:shop", "shop")
    assert (ops.principal.role, ops.digest) == ("admin", bytes.fromhex(DIGEST))


def test_two_tokens_may_share_a_name() -> None:
    tokens = read_tokens(f"shop:producer:{DIGEST} shop:producer:{OTHER}")

    assert holder_of(tokens, b"s3cret") == holder_of(tokens, b"new") == tokens[0].principal


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("shop", "entry 1: the role must be one of"),
        (f"shop:boss:{DIGEST}", "the role must be one of viewer, operator"),
        (f"a:viewer:{DIGEST} b:viewer:{DIGEST}", "entry 2: b has the token of another entry"),
        (f"a:viewer:{DIGEST} a:admin:{DIGEST}", "entry 2: a has the token of another entry"),
        (f"ok:admin:{DIGEST} shop:admin:abc", "entry 2: shop needs the SHA-256"),
        (f"shop:admin:{DIGEST}00", "64 hexadecimal digits"),
        (f"a:b:admin:{DIGEST}", "entry 1"),
        (f"user:ana:admin:{DIGEST}", "entry 1"),
        (f"app:producer:{DIGEST}", "not 'app'"),
        (f":admin:{DIGEST}", "the name must be"),
        (f"shop:producer:{DIGEST}:", "limits of the role producer are kinds, priority, delay"),
        (f"shop:producer:{DIGEST}:speed=1", "limits of the role producer are kinds, priority"),
        (f"shop:worker:{DIGEST}:priority=1", "limits of the role worker are kinds"),
        (f"shop:admin:{DIGEST}:kinds=a", "limits of the role admin are none"),
        (f"shop:operator:{DIGEST}:delay=1h", "limits of the role operator are none"),
        (f"shop:producer:{DIGEST}:kinds=", "kinds=value"),
        (f"shop:producer:{DIGEST}:kinds=,", "kinds: expected one kind at least"),
        (f"shop:producer:{DIGEST}:kinds=A", "'A' is no kind"),
        (f"shop:producer:{DIGEST}:priority=99999", "expected a whole number"),
        (f"shop:producer:{DIGEST}:delay=soon", "expected a duration"),
        (f"shop:producer:{DIGEST}:delay=1h:delay=2h", "given once"),
    ],
)
def test_a_bad_entry_is_named_by_its_place_without_its_digest(text: str, said: str) -> None:
    with pytest.raises(SettingError, match="QUEUE_TOKENS") as raised:
        read_tokens(text)

    assert said in str(raised.value)
    assert DIGEST not in str(raised.value)


def test_a_token_in_the_place_of_its_entry_is_not_said_back(tmp_path: Path) -> None:
    made, file = new_token(), tmp_path / "tokens"
    file.write_text(made)

    for text, name in ((made, ""), (f"{made}:shop:producer", ""), ("", str(file))):
        with pytest.raises(SettingError) as raised:
            read_tokens(text, name)
        assert made not in str(raised.value)


def test_the_same_entry_twice_is_one() -> None:
    assert len(read_tokens(f"shop:producer:{DIGEST} shop:producer:{DIGEST}")) == 1


@pytest.mark.parametrize("header", ["Bearer s3cret", "bearer s3cret", "BEARER s3cret"])
def test_the_scheme_is_read_in_any_case(header: str) -> None:
    assert bearer_of(header) == b"s3cret"


@pytest.mark.parametrize(
    "header",
    [
        "", "Bearer", "Bearer ", "Bearer  s3cret", "s3cret", "Basic czNjcmV0", "Bearer s3cret ",
        "Bearer s3cret\n", 'Bearer "s3cret"', "Bearer caf\xe9", "Bearer \xf0\x9f\x94\x91",
        "Bearer s3cret\x00", "Bearer s3cret, Bearer s3cret", "Bearer " + "a" * 1_000_000,
    ],
)  # fmt: skip
def test_anything_but_one_token_is_none(header: str) -> None:
    assert bearer_of(header) is None


def test_an_unknown_token_has_no_holder() -> None:
    assert holder_of(read_tokens(f"shop:producer:{DIGEST}"), b"S3cret") is None
    assert holder_of((), b"s3cret") is None


def test_limits_are_read_with_their_token() -> None:
    (shop,) = read_tokens(f"shop:producer:{DIGEST}:kinds=a,b.c:delay=1h:priority=-5")
    (any_kind,) = read_tokens(f"shop:producer:{DIGEST}")

    assert shop.principal.limits == Limits(frozenset({"a", "b.c"}), -5, 3600.0)
    assert any_kind.principal.limits == Limits()


def test_a_new_token_is_let_in_by_its_entry_which_does_not_hold_it() -> None:
    made, other = new_token(), new_token()
    entry = entry_of(made, "shop", "worker", ["kinds=a"])
    tokens = read_tokens(entry)

    assert made != other
    assert made not in entry
    assert made.encode() not in repr(tokens).encode()
    assert bearer_of(f"Bearer {made}") == made.encode()
    assert holder_of(tokens, made.encode()) == tokens[0].principal
    assert holder_of(tokens, other.encode()) is None


def test_a_file_adds_entries(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"# who may create\n\nshop:producer:{DIGEST}  # since May\n")

    found = read_tokens(f"ops:admin:{OTHER}", str(file))

    assert [token.principal.name for token in found] == ["ops", "shop"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (f"\nshop:boss:{DIGEST}\n".encode(), "line 2: the role must be"),
        (b"\xff", "is not UTF-8"),
        (None, "No such file"),
    ],
)
def test_what_is_wrong_with_a_file_is_named(
    tmp_path: Path, content: bytes | None, said: str
) -> None:
    file = tmp_path / "tokens"
    if content is not None:
        file.write_bytes(content)

    with pytest.raises(SettingError, match=r"^QUEUE_TOKENS_FILE") as raised:
        read_tokens("", str(file))

    assert said in str(raised.value)
    assert DIGEST not in str(raised.value)


@pytest.mark.parametrize(
    ("mode", "of_tokens", "of_people"),
    [
        (0o600, None, None),
        (0o640, None, None),
        (0o644, None, "be read by everybody"),
        (0o660, "be changed by others", "be changed by others"),
        (0o602, "be changed by others", "be changed by others"),
    ],
    ids=str,
)
def test_a_file_that_others_can_use_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture,
    mode: int, of_tokens: str | None, of_people: str | None,
) -> None:  # fmt: skip
    file = tmp_path / "entries"
    file.touch()
    file.chmod(mode)
    caplog.set_level(logging.INFO)

    for read, setting, said in (
        (read_tokens, "QUEUE_TOKENS_FILE", of_tokens),
        (read_people, "QUEUE_USERS_FILE", of_people),
    ):
        caplog.clear()
        read("", str(file))
        found = [one.message for one in caplog.records]
        assert len(found) == bool(said), found
        if said:
            assert found[0].startswith(f"{setting}: {file} can {said} ")
