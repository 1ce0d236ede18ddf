"""People whom the application around ours has signed in: it says who asks, and in which role.

A function from a request to a name and a role, given to ``create_app``. It is the only way in for
people then, and nobody is taken for the person at the machine: where it says nothing, names a role
that there is not, or fails, nobody gets in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from werkzeug.wrappers import Request

from queueapp.auth.people import is_name
from queueapp.auth.principal import Principal
from queueapp.auth.roles import PEOPLE, Role
from queueapp.config import Settings
from queueapp.errors import SettingError

# From a request to a name and a role, ``("ana", "operator")``; None for nobody.
Identify: TypeAlias = Callable[[Request], tuple[str, str] | None]


@dataclass(frozen=True)
class Host:
    """``sign_in``: where it signs people in; empty: they find it by themselves."""

    identify: Identify
    sign_in: str = ""

    def check(self, settings: Settings) -> None:
        """Raise SettingError for another way in that people would take this one for."""
        for name, is_set in (
            ("QUEUE_USERS", settings.users or settings.users_file),
            ("QUEUE_PROXY_USER_HEADER", settings.proxy_user_header),
        ):
            if is_set:
                raise SettingError(
                    f"{name}: the application around this one says who is there (identify), and it"
                    " alone: unset it",
                    setting=name,
                )

    def who_is_there(self, request: Request) -> Principal | None:
        """Whom it has signed in. Raises SettingError for an answer that is none."""
        told: Any = self.identify(request)
        if told is None:
            return None
        # Not of any two letters: they would be a pair as well.
        if not isinstance(told, tuple) or len(told) != 2:
            raise _wrong(f"a {type(told).__name__}")
        name, role = told
        if not isinstance(name, str) or not is_name(name):
            raise _wrong("a name that cannot be one: letters, digits, _ . @ + - (and not 'local')")
        if role not in PEOPLE:
            raise _wrong(f"for {name} the role {role!r}")
        return Principal(name, "user", Role(role))


def _wrong(what: str) -> SettingError:
    return SettingError(
        f"identify, which the application around this one has given, answered {what}; expected a"
        f" name and one of the roles {', '.join(PEOPLE)}, or None for nobody",
        setting="identify",
    )
