"""Bearer tokens: entries ``name:role:sha256[:limit=value…]``, and the header that shows one.

Only digests are kept. Nothing here repeats a token or a digest in a message: both end up in logs.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field

from queueapp.auth.entries import Entry, entries_of
from queueapp.auth.limits import Limits
from queueapp.auth.principal import Principal
from queueapp.auth.roles import Role
from queueapp.errors import SettingError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}", re.ASCII)
_DIGEST = re.compile(r"[0-9a-fA-F]{64}", re.ASCII)
# The b64token of RFC 6750; the scheme's case is free, everything else is not.
_BEARER = re.compile(r"bearer ([A-Za-z0-9._~+/-]{1,512}=*)", re.ASCII | re.IGNORECASE)
# What the Python API signs with: a token of that name would share its idempotency keys.
_RESERVED = ("app",)


# Found by scanners for secrets, should it ever be committed.
_MARK = "queue_"


@dataclass(frozen=True)
class Token:
    """One entry; several may share a name, so that one can be replaced."""

    principal: Principal
    digest: bytes = field(repr=False)


def new_token() -> str:
    """A token of 256 random bits."""
    return _MARK + secrets.token_urlsafe(32)


def entry_of(token: str, name: str, role: str, limits: Iterable[str] = ()) -> str:
    """The entry to configure for ``token``: its digest only."""
    return ":".join((name, role, hashlib.sha256(token.encode()).hexdigest(), *limits))


def read_tokens(text: str, file: str = "") -> tuple[Token, ...]:
    """Read the entries in ``text`` and in ``file``.

    Raises SettingError that names the setting and the place of the first bad one.
    """
    found: dict[bytes, Token] = {}
    # Digests of random tokens are no secret.
    for entry in entries_of("QUEUE_TOKENS", text, "QUEUE_TOKENS_FILE", file, is_secret=False):
        token = _token(entry)
        # The same entry twice is harmless; one token with two roles is either of them.
        if found.setdefault(token.digest, token) != token:
            raise _wrong(entry, f"{token.principal.name} has the token of another entry")
    return tuple(found.values())


def _token(entry: Entry) -> Token:
    name, role, digest, *limits = (*entry.text.split(":"), "", "")[: max(3, entry.parts)]
    if not _NAME.fullmatch(name) or name in _RESERVED:
        raise _wrong(entry, "the name must be letters, digits, _ . - (and not 'app')")
    if role not in set(Role):
        # Without the name: whoever pastes the token instead of its entry has it there.
        raise _wrong(entry, f"the role must be one of {', '.join(Role)}")
    if not _DIGEST.fullmatch(digest):
        raise _wrong(entry, f"{name} needs the SHA-256 of its token, 64 hexadecimal digits")
    try:
        within = Limits.read(Role(role), limits)
    except ValueError as error:
        raise _wrong(entry, f"{name}: {error}") from None
    return Token(Principal(name, "token", Role(role), within), bytes.fromhex(digest))


def _wrong(entry: Entry, what: str) -> SettingError:
    return entry.wrong(what, "name:role:sha256-of-the-token[:limit=value]")


def bearer_of(authorization: str) -> bytes | None:
    """The token that the header shows; None when it is not exactly one bearer token."""
    match = _BEARER.fullmatch(authorization)
    return match[1].encode("ascii") if match else None


def holder_of(tokens: Iterable[Token], shown: bytes) -> Principal | None:
    """Whose token ``shown`` is; takes the same time whichever entry it is, or none."""
    digest = hashlib.sha256(shown).digest()
    holder: Principal | None = None
    for token in tokens:
        if hmac.compare_digest(token.digest, digest):
            holder = token.principal
    return holder
