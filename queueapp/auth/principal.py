"""Who makes a request, and the names under which the ledger will know them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from queueapp.auth import limits
from queueapp.auth.limits import Limits
from queueapp.auth.roles import GRANTS, MOST_JOBS, Permission, Role


@dataclass(frozen=True)
class Principal:
    """A person or a token, with one role; ``limits`` are those of a token within it."""

    name: str
    kind: Literal["user", "token"]
    role: Role
    limits: Limits = limits.NONE

    @property
    def actor(self) -> str:
        """The name in the ledger: ``user:ana``, ``token:shop``."""
        return f"{self.kind}:{self.name}"

    @property
    def producer(self) -> str:
        """The scope of idempotency keys; two tokens of one name share it while one is replaced."""
        return self.name if self.kind == "token" else self.actor

    @property
    def most_jobs(self) -> int | None:
        """How many jobs one operation may move; None: all there are."""
        return None if self.may(Permission.ADMIN) else MOST_JOBS

    def may(self, permission: Permission) -> bool:
        """Whether the role grants ``permission``."""
        return self.role in GRANTS[permission]


# Who sits at the machine itself, before any access is configured.
LOCAL = Principal("local", "user", Role.ADMIN)
