"""People who sign in: entries ``name:role:password-hash``, and the check of a password.

A hash is werkzeug's scrypt with a salt of its own. Nothing here repeats a password or a hash.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field

from werkzeug.security import check_password_hash, generate_password_hash

from queueapp.auth.entries import Entry, entries_of
from queueapp.auth.principal import LOCAL, Principal
from queueapp.auth.roles import PEOPLE, Role
from queueapp.errors import SettingError

LEAST_PASSWORD, MOST_PASSWORD = 12, 500

# Addresses of mail as well: what proxies know people by.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@+-]{0,99}", re.ASCII)
_HASH = re.compile(r"scrypt:(\d{4,6}):(\d{1,2}):(\d)\$[A-Za-z0-9]{8,64}\$[0-9a-f]{128}", re.ASCII)
# The figures are bounded: a check takes 128 * n * r bytes, for p times as long.
_MOST_BYTES, _MOST_TIMES = 128 * 2**20, 4
_OURS = "scrypt:32768:8:1"
# Each check takes 32 MiB: one at a time in a process.
_one_at_a_time = threading.Lock()


@dataclass(frozen=True)
class Person:
    """One entry. ``password_hash``: empty for who comes through a proxy only."""

    principal: Principal
    password_hash: str = field(repr=False)


def new_hash(password: str) -> str:
    """What to store for ``password``. Raises ValueError for one that is too short or too long."""
    if not LEAST_PASSWORD <= len(password) <= MOST_PASSWORD:
        raise ValueError(f"a password has {LEAST_PASSWORD} to {MOST_PASSWORD} characters")
    return generate_password_hash(_plain(password), method=_OURS)


def entry_of(name: str, role: str, password_hash: str) -> str:
    """The entry to configure."""
    return f"{name}:{role}:{password_hash}"


def read_people(text: str, file: str = "", *, has_proxy: bool = False) -> dict[str, Person]:
    """Read the entries in ``text`` and in ``file``, by name.

    ``has_proxy``: it signs people in, so an entry may have no password. Raises SettingError that
    names the setting and the place of the first bad one.
    """
    found: dict[str, Person] = {}
    for entry in entries_of("QUEUE_USERS", text, "QUEUE_USERS_FILE", file, is_secret=True):
        person = _person(entry, has_proxy=has_proxy)
        if person.principal.name in found:
            raise _wrong(entry, f"{person.principal.name} has an entry already")
        found[person.principal.name] = person
    return found


def _person(entry: Entry, *, has_proxy: bool) -> Person:
    name, role, password_hash = (*entry.text.split(":", 2), "", "")[:3]
    if not is_name(name):
        raise _wrong(entry, "the name must be letters, digits, _ . @ + - (and not 'local')")
    if role not in PEOPLE:
        # Without the name: whoever pastes a password only has it there.
        raise _wrong(entry, f"the role must be one of {', '.join(PEOPLE)}")
    if not _is_hash(password_hash) and not (has_proxy and entry.parts == 2):
        said = f"{name} needs the hash that flask user new prints, whole: in a shell or a .env file"
        raise _wrong(entry, f"{said} it stands between single quotes, because of its $ signs")
    return Person(Principal(name, "user", Role(role)), password_hash)


def is_name(text: str) -> bool:
    """Whether somebody can have that name."""
    return _NAME.fullmatch(text) is not None and text != LOCAL.name


def _is_hash(text: str) -> bool:
    match = _HASH.fullmatch(text)
    if match is None:
        return False
    n, r, p = map(int, match.groups())
    # Any other figures would be found out at the sign-in only.
    is_power_of_two = n & (n - 1) == 0
    return is_power_of_two and 0 < 128 * n * r <= _MOST_BYTES and 0 < p <= _MOST_TIMES


def _wrong(entry: Entry, what: str) -> SettingError:
    return entry.wrong(what, "name:role:password-hash")


def who_knows(people: Mapping[str, Person], name: str, password: str) -> Person | None:
    """Whose name and password these are; takes the same time whether the name is known or not."""
    person = people.get(name)
    stored = (person.password_hash if person else "") or _nobodys(people)
    with _one_at_a_time:
        fits = check_password_hash(stored, _plain(password[:MOST_PASSWORD]))
    return person if fits and len(password) <= MOST_PASSWORD else None


def _nobodys(people: Mapping[str, Person]) -> str:
    """What nobody's password fits, and which takes as long to find out as with somebody's."""
    hashes = (person.password_hash for person in people.values())
    figures = next((one.partition("$")[0] for one in hashes if one), _OURS)
    return f"{figures}$nobodynobodynobo${'0' * 128}"


def _plain(password: str) -> str:
    """One form for what keyboards write in several."""
    return unicodedata.normalize("NFKC", password)
