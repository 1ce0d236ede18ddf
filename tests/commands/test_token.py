"""``flask token``: what it prints lets in what it names, and nothing else."""

from __future__ import annotations

import re

import pytest
from flask.testing import FlaskCliRunner

from queueapp.auth.limits import Rate
from queueapp.auth.tokens import holder_of, read_tokens


def test_a_new_token_is_shown_once_with_the_entry_to_store(runner: FlaskCliRunner) -> None:
    words = "--role producer --kind a.b --kind c --priority 5 --delay 1d"
    result = runner.invoke(args=["token", "new", "shop", *words.split()])

    found = re.fullmatch(r"token  (\S+)\nentry  (\S+)\n", result.stdout)
    assert found, result.output
    token, entry = found.groups()
    principal = holder_of(read_tokens(entry), token.encode())
    assert principal is not None
    assert (principal.actor, principal.role) == ("token:shop", "producer")
    assert principal.limits.kinds == frozenset({"a.b", "c"})
    assert (principal.limits.highest_priority, principal.limits.longest_delay_s) == (5, 86_400)
    assert token not in entry


@pytest.mark.parametrize(
    ("words", "rate"),
    [
        ("--rate 100/s", Rate(100, 1, 100)),
        ("--rate 600/m --burst 5", Rate(600, 60, 5)),
        ("--burst 5000 --rate 5/h", Rate(5, 3_600, 5_000)),
        ("--rate 9/d", Rate(9, 86_400, 9)),
    ],
)
def test_a_rate_and_a_largest_payload_are_limits_as_well(
    runner: FlaskCliRunner, words: str, rate: Rate
) -> None:
    options = f"--role producer --payload 64KB {words}"
    result = runner.invoke(args=["token", "new", "shop", *options.split()])

    [token] = read_tokens(result.stdout.split()[-1])
    assert token.principal.limits.rate == rate
    assert token.principal.limits.largest_payload == 65_536


def test_two_tokens_differ(runner: FlaskCliRunner) -> None:
    made = {runner.invoke(args=["token", "new", "x", "--role", "viewer"]).stdout for _ in range(2)}

    assert len(made) == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["app", "--role", "producer"], "not 'app'"),
        (["a:b", "--role", "producer"], "no white space"),
        (["a", "--role", "boss"], "'boss' is not one of"),
        (["a"], "Missing option '--role'"),
        (["a", "--role", "viewer", "--kind", "x"], "--kind: limits of the role viewer are none"),
        (
            ["a", "--role", "worker", "--delay", "1h"],
            "--delay: limits of the role worker are kinds",
        ),
        (["a", "--role", "producer", "--delay", "soon"], "--delay: expected a duration"),
        (["a", "--role", "producer", "--kind", "B"], "--kind: 'B' is no kind"),
        (["a b", "--role", "producer"], "no white space"),
        (["a", "--role", "producer", "--rate", "5"], "--rate: expected a rate such as 100/s"),
        (["a", "--role", "producer", "--rate", "0/s"], "expected a rate such as 100/s"),
        (["a", "--role", "producer", "--burst", "5"], "--burst: it needs a rate beside it"),
        (
            ["a", "--role", "producer", "--rate", "5/s", "--burst", "0"],
            "--burst: expected a whole number from 1",
        ),
        (
            ["a", "--role", "producer", "--payload", "0"],
            "--payload: expected a size such as 64KB, above zero",
        ),
        (["a", "--role", "worker", "--rate", "5/s"], "--rate: limits of the role worker are kinds"),
    ],
)
def test_what_start_up_would_refuse_is_refused_and_no_token_is_shown(
    runner: FlaskCliRunner, words: list[str], said: str
) -> None:
    result = runner.invoke(args=["token", "new", *words])

    assert result.exit_code == 2
    assert result.stdout == ""
    assert said in result.stderr


def test_a_name_that_would_break_its_entry_is_named(runner: FlaskCliRunner) -> None:
    result = runner.invoke(args=["token", "new", "a:b", "--role", "viewer"])

    assert result.exit_code == 2
    assert "may hold no colon and no white space" in result.output
