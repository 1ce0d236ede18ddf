"""Bearer tokens: ``name:role:sha256`` entries of the setting, and the header that shows one.

Only digests are kept. Nothing here repeats a token or a digest in a message: both end up in logs.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable
from dataclasses import dataclass

from queueapp.auth.principal import Principal
from queueapp.auth.roles import Role
from queueapp.errors import SettingError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}", re.ASCII)
_DIGEST = re.compile(r"[0-9a-fA-F]{64}", re.ASCII)
# The b64token of RFC 6750; the scheme's case is free, everything else is not.
_BEARER = re.compile(r"bearer ([A-Za-z0-9._~+/-]{1,512}=*)", re.ASCII | re.IGNORECASE)
# What the Python API signs with: a token of that name would share its idempotency keys.
_RESERVED = ("app",)


@dataclass(frozen=True)
class Token:
    """One entry of ``QUEUE_TOKENS``; several may share a name, so that one can be replaced."""

    principal: Principal
    digest: bytes


def read_tokens(text: str) -> tuple[Token, ...]:
    """Read the entries in ``text``. Raises SettingError with the place of the first bad one."""
    return tuple(_entry(entry, place) for place, entry in enumerate(text.split(), start=1))


def _entry(entry: str, place: int) -> Token:
    name, role, digest = (*entry.split(":", 2), "", "")[:3]
    if not _NAME.fullmatch(name) or name in _RESERVED:
        raise _wrong(place, "the name must be letters, digits, _ . - (and not 'app')")
    if role not in set(Role):
        raise _wrong(place, f"the role of {name} must be one of {', '.join(Role)}")
    if not _DIGEST.fullmatch(digest):
        raise _wrong(place, f"{name} needs the SHA-256 of its token, 64 hexadecimal digits")
    return Token(Principal(name, "token", Role(role)), bytes.fromhex(digest))


def _wrong(place: int, what: str) -> SettingError:
    form = "expected name:role:sha256-of-the-token"
    return SettingError(f"QUEUE_TOKENS, entry {place}: {what}; {form}", setting="QUEUE_TOKENS")


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
