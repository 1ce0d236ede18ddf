"""Entries of QUEUE_TOKENS and the header that shows a token."""

from __future__ import annotations

import hashlib

import pytest

from queueapp.auth.tokens import bearer_of, holder_of, read_tokens
from queueapp.errors import SettingError

DIGEST = hashlib.sha256(b"s3cret").hexdigest()


def test_every_entry_becomes_a_principal() -> None:
    shop, ops = read_tokens(f"shop:producer:{DIGEST}\n ops:admin:{DIGEST.upper()} ")

    assert (shop.principal.actor, shop.principal.producer) == ("token:shop", "shop")
    assert (ops.principal.role, ops.digest) == ("admin", bytes.fromhex(DIGEST))


def test_two_tokens_may_share_a_name() -> None:
    new = hashlib.sha256(b"new").hexdigest()
    tokens = read_tokens(f"shop:producer:{DIGEST} shop:producer:{new}")

    assert holder_of(tokens, b"s3cret") == holder_of(tokens, b"new") == tokens[0].principal


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("shop", "entry 1: the role of shop"),
        (f"shop:boss:{DIGEST}", "the role of shop must be one of viewer, operator"),
        (f"ok:admin:{DIGEST} shop:admin:abc", "entry 2: shop needs the SHA-256"),
        (f"shop:admin:{DIGEST}00", "64 hexadecimal digits"),
        (f"a:b:admin:{DIGEST}", "entry 1"),
        (f"user:ana:admin:{DIGEST}", "entry 1"),
        (f"app:producer:{DIGEST}", "not 'app'"),
        (f":admin:{DIGEST}", "the name must be"),
    ],
)
def test_a_bad_entry_is_named_by_its_place_without_its_digest(text: str, said: str) -> None:
    with pytest.raises(SettingError, match="QUEUE_TOKENS") as raised:
        read_tokens(text)

    assert said in str(raised.value)
    assert DIGEST not in str(raised.value)


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
