"""The schema that this release needs, as its migrations say."""

from __future__ import annotations

from functools import cache

from alembic.script import ScriptDirectory
from flask import current_app


def schema_head() -> str | None:
    """The revision of the schema that this release needs."""
    return _head(current_app.extensions["migrate"].directory)


@cache
def _head(directory: str) -> str | None:
    return ScriptDirectory(directory).get_current_head()
