"""``flask user``: make the entry of a person who signs in. Nothing is stored here."""

from __future__ import annotations

import secrets

import click
from flask import Flask

from queueapp.auth.people import entry_of, new_hash, read_people
from queueapp.auth.roles import PEOPLE
from queueapp.commands.parameters import refuse_name
from queueapp.errors import SettingError


def init_app(app: Flask) -> None:
    """Register the commands with ``app``."""
    app.cli.add_command(user)


@click.group("user")
def user() -> None:
    """Make entries for people who use the console."""


@user.command("new")
@click.argument("name")
@click.option("--role", type=click.Choice(PEOPLE), required=True, help="What they may do.")
@click.option("--generate", is_flag=True, help="Make the password up and print it.")
def new(name: str, role: str, *, generate: bool) -> None:
    """Ask for a password and print the entry that lets the person in.

    The entry holds a salted hash (scrypt). Add it to QUEUE_USERS, between single quotes because of
    its $ signs, or as a line to the file that QUEUE_USERS_FILE names, and start the web processes
    again. Another entry for the same name changes the password, and ends the person's sessions.

    \b
    Examples:
      flask user new ana --role operator
      flask user new ben --role viewer --generate
    """
    refuse_name(name)
    password = secrets.token_urlsafe(18) if generate else _asked()
    try:
        entry = entry_of(name, role, new_hash(password))
        read_people(entry)
    except SettingError as error:
        raise click.UsageError(error.message.partition(": ")[2]) from None
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if generate:
        click.echo(f"password  {password}")
    click.echo(f"entry     {entry}" if generate else entry)


def _asked() -> str:
    password: str = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    return password
