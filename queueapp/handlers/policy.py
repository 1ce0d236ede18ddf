"""What the handlers may do here: the settings that concern them, handed over by ``create_app``.

Handlers never read the environment; they ask ``current()``.
"""

from __future__ import annotations

from dataclasses import dataclass

from queueapp.handlers import hosts, registry


@dataclass(frozen=True, kw_only=True)
class Policy:
    """Rules for enqueue and for the built-in kinds. Each field is named like its setting."""

    max_attempts: int = 5
    accept_unknown_kinds: bool = False
    external_kinds: tuple[str, ...] = ()
    http_allowed_hosts: tuple[str, ...] = ()
    http_allow_private: bool = False
    handlers: tuple[str, ...] = ()


_policy = Policy()


def configure(policy: Policy) -> None:
    """Put ``policy`` into force for this process and import the handlers that it names.

    Raises SettingError for an unreadable host and for a module that cannot be imported.
    """
    global _policy  # noqa: PLW0603 - one process runs one queue, as it has one registry
    hosts.rules(policy.http_allowed_hosts)
    registry.load(policy.handlers)
    _policy = policy


def current() -> Policy:
    """The policy in force; before ``configure`` the careful defaults."""
    return _policy
