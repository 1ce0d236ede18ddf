"""Who may call what: the table of every address, method and role, read from the declarations."""

from __future__ import annotations

from enum import StrEnum

from flask import Flask

from queueapp.auth.access import declared
from queueapp.auth.roles import GRANTS, Permission, Role

# What the permission is for whoever has it whole; the others have it for their own jobs.
WHOLE = {Permission.READ_OWN: Permission.READ, Permission.CANCEL: Permission.ACT}


class May(StrEnum):
    """What one role may do with one route."""

    YES = "yes"
    OWN = "its own"
    NO = "no"


def of(app: Flask) -> dict[tuple[str, str], dict[Role | None, May]]:
    """By method and address, what each role may; None is whoever shows no credentials."""
    return {
        (method, rule.rule): _row(declared(app, rule.endpoint))
        for rule in app.url_map.iter_rules()
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
    }


def _row(permission: Permission | None) -> dict[Role | None, May]:
    nobody = May.YES if permission is None else May.NO
    return {None: nobody, **{role: _of_role(permission, role) for role in Role}}


def _of_role(permission: Permission | None, role: Role) -> May:
    if permission is None or role in GRANTS[WHOLE.get(permission, permission)]:
        return May.YES
    return May.OWN if role in GRANTS[permission] else May.NO
