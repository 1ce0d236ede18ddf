"""What a setting is: its name, its default, how its text is read, what it is for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any


def setting(
    env: str, default: str, read: Callable[[str], Any], about: str, *, secret: bool = False
) -> Any:
    """One setting; neither a message nor a printed ``Settings`` shows a secret one."""
    meta = {"env": env, "default": default, "read": read, "about": about, "secret": secret}
    return field(metadata=meta, repr=not secret)
