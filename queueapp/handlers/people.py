"""What a registration says to people: who answers for a kind, and where it is described."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

LONGEST_OWNER = 100
LONGEST_ADDRESS = 2_000
# What a browser would drop or read otherwise, and what shows nothing or turns text around.
_UNFIT = re.compile(
    r"[\x00-\x20\x7f-\xa0\\\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)
_WITHIN = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)


def must_be_owner(owner: str | None) -> None:
    """Raise TypeError or ValueError for what is no short line of text."""
    if owner is None:
        return
    if not isinstance(owner, str):
        raise TypeError(f"owner must be text, not {owner!r}")
    if not owner.strip() or len(owner) > LONGEST_OWNER or _WITHIN.search(owner):
        raise ValueError(
            f"owner must be one line of 1 to {LONGEST_OWNER} characters that show, not {owner!r}"
        )


def must_be_docs(docs: str | None) -> None:
    """Raise TypeError or ValueError for what is no address of a page that a link may lead to."""
    if docs is None:
        return
    if not isinstance(docs, str):
        raise TypeError(f"docs must be an address, not {docs!r}")
    if len(docs) > LONGEST_ADDRESS or _UNFIT.search(docs) or not _leads_somewhere(docs):
        raise ValueError(
            "docs must be the address of a page, http:// or https:// with a host and without a"
            f" password, of at most {LONGEST_ADDRESS:,} characters"
        )


def _leads_somewhere(address: str) -> bool:
    try:
        parts = urlsplit(address)
        return (
            parts.scheme in ("http", "https")
            and bool(parts.hostname)
            and "@" not in parts.netloc
            and parts.port != 0
        )
    except ValueError:
        return False
