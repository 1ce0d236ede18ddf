"""The help of all commands speaks in one way."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from queueapp import create_app
from queueapp.commands.parameters import Duration

FLASKS_OWN = {"db", "routes", "run", "shell"}


def commands_of(group: click.Group, *before: str) -> Iterator[tuple[str, click.Command]]:
    for name, command in sorted(group.commands.items()):
        if not before and name in FLASKS_OWN:
            continue
        yield " ".join((*before, name)), command
        if isinstance(command, click.Group):
            yield from commands_of(command, *before, name)


COMMANDS = dict(commands_of(create_app({"DATABASE_URL": "postgresql://h/d"}).cli))


def options_of(command: click.Command) -> list[click.Option]:
    return [one for one in command.params if isinstance(one, click.Option)]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_says_what_it_does_and_what_each_option_is_for(name: str) -> None:
    said = COMMANDS[name].get_short_help_str(limit=1000)
    first = said.split()[0]

    assert first[0].isupper()
    assert not first.endswith("s"), "as an order: it runs, so say run"
    assert [one.name for one in options_of(COMMANDS[name]) if not one.help] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_calls_numbers_and_lengths_of_time_by_one_name(name: str) -> None:
    command = COMMANDS[name]
    context = click.Context(command)
    shown = {one.name: one.make_metavar(context) for one in options_of(command) if not one.is_flag}

    assert [name for name, metavar in shown.items() if metavar.startswith("INTEGER")] == []
    lengths = {one.name for one in options_of(command) if isinstance(one.type, Duration)}
    assert {shown[name] for name in lengths} <= {"DURATION"}
