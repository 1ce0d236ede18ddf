"""How well the database serves the queue."""

from __future__ import annotations

from flask import Response

from queueapp.auth import Permission, permits
from queueapp.console.blueprint import bp


@bp.get("/system")
@permits(Permission.READ)
def system() -> Response:
    """Placeholder."""
    return Response("")
