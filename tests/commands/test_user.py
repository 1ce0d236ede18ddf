"""``flask user``: the entry that it prints lets in who knows the password, and nobody else."""

from __future__ import annotations

import re

import pytest
from flask.testing import FlaskCliRunner

from queueapp.auth.people import read_people, who_knows


def test_a_password_is_asked_twice_and_only_its_hash_is_printed(runner: FlaskCliRunner) -> None:
    typed = "correct horse battery\n"
    result = runner.invoke(args=["user", "new", "ana", "--role", "operator"], input=typed * 2)

    entry = result.stdout.strip()
    assert "correct horse" not in result.output
    person = who_knows(read_people(entry), "ana", "correct horse battery")
    assert person is not None
    assert (person.principal.actor, person.principal.role) == ("user:ana", "operator")


def test_a_password_that_is_made_up_is_printed_with_its_entry(runner: FlaskCliRunner) -> None:
    result = runner.invoke(args=["user", "new", "ben", "--role", "viewer", "--generate"])

    found = re.fullmatch(r"password  (\S+)\nentry     (\S+)\n", result.stdout)
    assert found, result.output
    assert who_knows(read_people(found[2]), "ben", found[1]) is not None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["local", "--role", "admin"], "not 'local'"),
        (["a b", "--role", "admin"], "no white space"),
        (["ana", "--role", "producer"], "'producer' is not one of"),
        (["ana", "--role", "viewer"], "12 to 500 characters"),
    ],
)
def test_what_start_up_would_refuse_is_refused(
    runner: FlaskCliRunner, words: list[str], said: str
) -> None:
    typed = "short\n" if words == ["ana", "--role", "viewer"] else "correct horse battery\n"
    result = runner.invoke(args=["user", "new", *words], input=typed * 2)

    assert result.exit_code == 2
    assert said in result.stderr
    assert "scrypt" not in result.output


def test_a_name_that_would_break_its_entry_is_named(runner: FlaskCliRunner) -> None:
    result = runner.invoke(args=["user", "new", "a b", "--role", "viewer", "--generate"])

    assert result.exit_code == 2
    assert "may hold no colon and no white space" in result.output
