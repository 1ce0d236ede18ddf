"""The blueprint that every page and action of the console hangs on."""

from __future__ import annotations

from flask import Blueprint

bp = Blueprint("console", __name__)
