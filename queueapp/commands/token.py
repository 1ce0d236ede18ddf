"""``flask token``: make a token for the API. Nothing is stored here: the entry is yours to keep."""

from __future__ import annotations

import click
from flask import Flask

from queueapp.auth.limits import Limits
from queueapp.auth.roles import Role
from queueapp.auth.tokens import entry_of, new_token, read_tokens
from queueapp.commands.parameters import refuse_name
from queueapp.errors import SettingError


def init_app(app: Flask) -> None:
    """Register the commands with ``app``."""
    app.cli.add_command(token)


@click.group("token")
def token() -> None:
    """Make tokens for programs that use the API."""


@token.command("new")
@click.argument("name")
@click.option(
    "--role", type=click.Choice([role.value for role in Role]), required=True,
    help="What it may do: docs/security.md has the table.",
)  # fmt: skip
@click.option(
    "--kind", "kinds", multiple=True, metavar="KIND",
    help="A kind it may create (producer) or lease (worker); may be repeated. Default: any.",
)  # fmt: skip
@click.option("--priority", metavar="N", help="Of a producer: the highest priority it may ask for.")
@click.option("--delay", metavar="DURATION", help="Of a producer: the longest delay, such as 1h.")
@click.option("--payload", metavar="SIZE", help="Of a producer: the largest payload, such as 64KB.")
@click.option("--rate", metavar="RATE", help="Of a producer: how many jobs, such as 100/s, 600/m.")
@click.option(
    "--burst", metavar="N", help="Of a producer: how many at once; the rate's number unless given."
)
def new(name: str, role: str, kinds: tuple[str, ...], **limits: str | None) -> None:
    """Make a token, show it once, and print the entry that lets it in.

    The entry holds the token's SHA-256 only, so the token cannot be shown again. Add the entry to
    QUEUE_TOKENS, or as a line to the file that QUEUE_TOKENS_FILE names, and start the web processes
    again. To replace a token, make one of the same name, and take the old entry out when all who
    use it have the new one.

    \b
    Examples:
      flask token new shop --role producer --kind mail.send --priority 5 --delay 1d
      flask token new import --role producer --payload 64KB --rate 100/s --burst 5000
      flask token new resizer --role worker --kind image.resize
      flask token new dashboard --role viewer
    """
    refuse_name(name)
    asked = {"kinds": ",".join(kinds) or None, **limits}
    given = [f"{limit}={value}" for limit, value in asked.items() if value is not None]
    _check_limits(role, given)
    made = new_token()
    entry = entry_of(made, name, role, given)
    _check(entry)
    click.echo(f"token  {made}")
    click.echo(f"entry  {entry}")
    click.echo("The token is shown this once; whoever has it is let in.", err=True)


def _check_limits(role: str, given: list[str]) -> None:
    """Refuse a limit by the name of its option."""
    try:
        Limits.read(Role(role), given)
    except ValueError as error:
        limit, _, what = str(error).partition(": ")
        option = {"kinds": "kind"}.get(limit, limit)
        raise click.UsageError(f"--{option}: {what}") from None


def _check(entry: str) -> None:
    """Refuse what start-up would refuse, before anybody stores it."""
    try:
        read_tokens(entry)
    except SettingError as error:
        raise click.UsageError(error.message.partition(": ")[2]) from None
