"""Settings: read from the environment, checked, the bad one named.

``Settings`` is the one table of them; ``docs/settings.md`` is made from it and a test compares the
two. Durations take a plain number of seconds or a number with a unit: ``90``, ``90s``, ``5m``,
``1h``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from queueapp.config.store import Store
from queueapp.config.web import Web
from queueapp.config.work import Work
from queueapp.errors import SettingError

__all__ = ["Settings", "load", "needs_database_url"]


# The last of the bases comes first in the table.
@dataclass(frozen=True, kw_only=True)
class Settings(Web, Work, Store):
    """Every setting of the product, in the order of the documentation."""

    @property
    def is_sqlite(self) -> bool:
        """Whether the database is a file of SQLite's, for one worker process."""
        return self.database_url.startswith("sqlite")


def load(environ: Mapping[str, str], overrides: Mapping[str, Any] | None = None) -> Settings:
    """Read every setting from ``environ``; ``overrides`` (by setting name, as text) win.

    Raises SettingError that names the first unusable one.
    """
    texts = {**environ, **{name: str(value) for name, value in (overrides or {}).items()}}
    return Settings(**{entry.name: _read(entry.metadata, texts) for entry in fields(Settings)})


def _read(meta: Mapping[str, Any], texts: Mapping[str, str]) -> Any:
    text = texts.get(meta["env"], meta["default"])
    try:
        return meta["read"](text)
    except ValueError as error:
        shown = "" if meta["secret"] else f", not {text!r}"
        raise SettingError(f"{meta['env']}: {error}{shown}", setting=meta["env"]) from None


def needs_database_url(settings: Settings) -> bool:
    """Whether a local PostgreSQL would be wrong here: in production, or on a Heroku dyno."""
    return settings.env == "production" or "DYNO" in os.environ
