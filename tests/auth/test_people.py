"""Entries of QUEUE_USERS and the check of a password."""

from __future__ import annotations

import pytest
from werkzeug.security import generate_password_hash

from queueapp.auth.people import entry_of, new_hash, read_people, who_knows
from queueapp.errors import SettingError

# Cheaper than real ones: what is tested is not the hashing.
HASH = generate_password_hash("correct horse battery", method="scrypt:1024:8:1")


def test_every_entry_becomes_a_person() -> None:
    people = read_people(f"ana:operator:{HASH}\n ben@example.com:viewer:{HASH}")

    assert [one.principal.actor for one in people.values()] == ["user:ana", "user:ben@example.com"]
    assert [one.principal.role for one in people.values()] == ["operator", "viewer"]
    assert HASH not in repr(people)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("secret123", "entry 1: the role must be one of"),
        (f"ana:producer:{HASH}", "the role must be one of viewer, operator, admin"),
        (f"ok:admin:{HASH} ana:admin:secret123", "entry 2: ana needs the hash"),
        ("ana:admin:scrypt:32768:8:1", "single quotes"),  # what a shell leaves of it
        (f"ana:admin:{HASH.replace('1024', '999999')}", "ana needs the hash"),
        *(
            (f"ana:admin:{HASH.replace('1024:8:1', figures)}", "ana needs the hash")
            for figures in (
                "16384:99:1", "1024:0:1", "1024:8:0", "1024:8:9",
                "30000:8:1",  # no power of two
                "262144:8:1", "262144:16:9",  # more memory than a process may spare, or has
            )
        ),
        ("ana:admin:pbkdf2:sha256:1$abcdefgh$00", "ana needs the hash"),
        (f"local:admin:{HASH}", "not 'local'"),
        (f"a/b:admin:{HASH}", "the name must be"),
        (f"ana:viewer:{HASH} ana:admin:{HASH}", "entry 2: ana has an entry already"),
    ],
)  # fmt: skip
def test_a_bad_entry_is_named_by_its_place_without_its_hash(text: str, said: str) -> None:
    with pytest.raises(SettingError, match="QUEUE_USERS") as raised:
        read_people(text)

    assert said in str(raised.value)
    assert "$" not in str(raised.value).replace("its $ signs", "")
    assert "secret123" not in str(raised.value)


@pytest.mark.parametrize("figures", ["4096:8:1", "16384:8:4", "131072:8:1"])
def test_any_hash_that_is_let_in_can_be_checked(figures: str) -> None:
    people = read_people(f"ana:admin:{HASH.replace('1024:8:1', figures)}")

    assert who_knows(people, "ana", "correct horse battery") is None


def test_a_password_fits_its_own_entry_only() -> None:
    people = read_people(f"ana:operator:{HASH} ben:viewer:{new_hash('another one, longer')}")

    assert who_knows(people, "ana", "correct horse battery") == people["ana"]
    assert who_knows(people, "ben", "another one, longer") == people["ben"]
    for name, password in (
        ("ana", "another one, longer"), ("ben", "correct horse battery"), ("ana", ""),
        ("nobody", "correct horse battery"), ("", ""), ("ana", "caf\xe9\x00\U0001f511"),
        ("ana", "correct horse battery" + " " * 1000), ("ANA", "correct horse battery"),
    ):  # fmt: skip
        assert who_knows(people, name, password) is None, (name, password)


@pytest.mark.parametrize("figures", ["1024:8:1", "4096:8:2"])
def test_an_unknown_name_costs_what_a_known_one_costs(
    figures: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    people = read_people(
        f"ben:viewer ana:admin:{HASH.replace('1024:8:1', figures)}", has_proxy=True
    )
    looked_at: list[str] = []

    def look(stored: str, _password: str) -> bool:
        looked_at.append(stored.partition("$")[0])
        return False

    monkeypatch.setattr("queueapp.auth.people.check_password_hash", look)
    for name in ("ana", "nobody", "ben"):
        who_knows(people, name, "correct horse battery")

    assert looked_at == [f"scrypt:{figures}"] * 3


def test_one_password_fits_however_a_keyboard_writes_it() -> None:
    people = read_people(entry_of("ana", "viewer", new_hash("cafe\u0301 au lait, hot")))

    assert who_knows(people, "ana", "caf\xe9 au lait, hot") is not None


@pytest.mark.parametrize("password", ["", "short", "x" * 11, "x" * 501])
def test_a_password_too_short_or_too_long_has_no_hash(password: str) -> None:
    with pytest.raises(ValueError, match="12 to 500"):
        new_hash(password)
