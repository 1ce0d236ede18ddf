"""Who may call what: closed unless a route says otherwise.

Every route declares its permission with ``@permits``; a route that forgets to is refused. Until
people are configured, a person is whoever sits at the machine itself; in production nobody is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from flask import Flask, current_app, g, request

from queueapp.auth import origin, read_only, session
from queueapp.auth.host import Host
from queueapp.auth.people import Person
from queueapp.auth.principal import LOCAL, Principal
from queueapp.auth.proxies import Proxies
from queueapp.auth.roles import ABOUT, GRANTS, PEOPLE, Permission, Role, people_who_may
from queueapp.auth.tokens import Token, bearer_of, holder_of
from queueapp.config import needs_database_url
from queueapp.errors import NotAllowed, NotAuthenticated

View = TypeVar("View", bound=Callable[..., Any])

# What programs ask for outside /api: there no answer is ever HTML.
BESIDE_API = ("/healthz", "/readyz", "/metrics")

CONFIGURE = (
    "only the machine itself may use this queue until access is configured: QUEUE_TOKENS for"
    " programs (flask token new), QUEUE_USERS for people (flask user new); see docs/security.md"
)
CLOSED = (
    "in production nobody may use this queue until access is configured: QUEUE_TOKENS for"
    " programs (flask token new), QUEUE_USERS for people (flask user new); see docs/security.md"
)
LOCAL_ONLY = (
    "the console answers on the machine itself only, until people are configured (QUEUE_USERS):"
    " open it at http://127.0.0.1:<port>, from elsewhere through ssh -L <port>:127.0.0.1:<port>"
)


def permits(permission: Permission) -> Callable[[View], View]:
    """Declare what a view needs. Stands under the route's decorator."""

    def declare(view: View) -> View:
        cast(Any, view).permission = permission
        return view

    return declare


def open_to_all(view: View) -> View:
    """Declare that a view needs nothing: it must show nothing of any job."""
    cast(Any, view).permission = None
    return view


def may(permission: Permission) -> bool:
    """Whether whoever makes the present request may do it, as things stand."""
    return current_principal().may(permission) and not is_closed(permission)


def declared(app: Flask, endpoint: str) -> Permission | None:
    """The permission an endpoint needs, None for open ones. Raises LookupError if it forgot."""
    if endpoint == "static":
        return None
    view = app.view_functions[endpoint]
    if not hasattr(view, "permission"):
        raise LookupError(f"the route {endpoint} declares no permission: add @permits(...)")
    return cast(Any, view).permission  # type: ignore[no-any-return]


def current_principal() -> Principal:
    """Who makes the present request; only views that declare a permission may ask."""
    principal: Principal = g.principal
    return principal


def why_read_only() -> str | None:
    """Why nothing may be changed, the same for all of an answer; None for whoever is not let in.

    Asked late it knows more: what the page has read meanwhile.
    """
    if "principal" not in g:
        return None
    if "read_only" not in g:
        g.read_only = read_only.why()
    found: str | None = g.read_only
    return found


def is_closed(permission: Permission) -> bool:
    """Whether nobody is granted it at present, whatever the role."""
    return permission in read_only.CLOSES and why_read_only() is not None


def somebody_may(permission: Permission) -> bool:
    """Whether there is anybody in the team, person or program, who may do it at present."""
    tokens: tuple[Token, ...] = current_app.extensions["queue_tokens"]
    people: dict[str, Person] = current_app.extensions["queue_people"]
    roles = {one.principal.role for one in tokens} | {one.principal.role for one in people.values()}
    # Whom the application around has in which role, nobody knows here.
    roles |= {Role(one) for one in PEOPLE} if host() else set()
    granted = not GRANTS[permission].isdisjoint({*roles, _proxies().role})
    return granted and not is_closed(permission)


def guard() -> None:
    """Refuse what is not permitted; runs before every request, and before any body is read."""
    if request.endpoint is None:
        return  # no such address or method: the router's own answer is next
    permission = _needed(request.endpoint)
    if permission is None:
        _refuse_other_sites()
        return
    principal = _resolve()
    if principal.kind == "user":
        _refuse_other_sites()
    _refuse(principal, permission)
    g.principal = principal
    if permission in read_only.CLOSES and (why := read_only.why()):
        read_only.refuse(why)


def refuse_unless(permission: Permission) -> None:
    """Raise NotAllowed where the present request asks for more than its route has declared."""
    _refuse(current_principal(), permission)


def _refuse(principal: Principal, permission: Permission) -> None:
    if not principal.may(permission):
        raise NotAllowed(
            f"the role {principal.role} may not {ABOUT[permission]}: you are {principal.actor};"
            f" {people_who_may(permission)} may",
            role=principal.role.value,
            permission=permission.value,
        )


def _needed(endpoint: str) -> Permission | None:
    try:
        return declared(current_app, endpoint)
    except LookupError:
        if current_app.testing:
            raise
        raise NotAllowed("this address declares no permission, so nobody may use it") from None


def _resolve() -> Principal:
    tokens: tuple[Token, ...] = current_app.extensions["queue_tokens"]
    shown = request.headers.get("Authorization")
    # Whoever shows credentials is judged by them alone, never taken for the person at the machine.
    if shown is not None:
        return _holder(tokens, shown)
    if person := _person():
        return person
    if tokens and (request.path.startswith("/api/") or request.path in BESIDE_API):
        raise NotAuthenticated("send a valid token: Authorization: Bearer <token>")
    if session.is_possible():
        raise NotAuthenticated("sign in first")
    if host():
        raise NotAuthenticated("sign in to the application that this queue is a part of")
    if _proxies().header:
        raise NotAllowed("come through the proxy in front: it has to say who you are")
    return _local(CONFIGURE if not tokens else LOCAL_ONLY)


def _person() -> Principal | None:
    """Whom the application around or the proxy in front names, else who has signed in here."""
    if around := host():
        return around.who_is_there(request)
    people: dict[str, Person] = current_app.extensions["queue_people"]
    if named := _proxies().who_is_named(request, people):
        return named
    person = session.who_is_signed_in(people)
    g.is_signed_in = person is not None
    return person.principal if person else None


def host() -> Host | None:
    """The application around this one, where that says who is there."""
    found: Host | None = current_app.extensions["queue_host"]
    return found


def _proxies() -> Proxies:
    proxies: Proxies = current_app.extensions["queue_proxies"]
    return proxies


def _local(refusal: str) -> Principal:
    """Whoever sits at the machine itself, where that can be told from the rest of the world."""
    # A proxy on the same machine may well look like it, and in production there is one.
    if needs_database_url(current_app.extensions["queue_settings"]):
        raise NotAllowed(CLOSED)
    if not origin.is_local(request) or _proxies().sent(request):
        raise NotAllowed(refusal)
    return LOCAL


def _holder(tokens: tuple[Token, ...], authorization: str) -> Principal:
    bearer = bearer_of(authorization)
    holder = holder_of(tokens, bearer or b"")
    if bearer is None or holder is None:
        # One answer for malformed and unknown: it tells a guesser nothing.
        raise NotAuthenticated("the Authorization header holds no valid bearer token")
    return holder


def _refuse_other_sites() -> None:
    if request.method not in origin.SAFE_METHODS and not origin.is_same_site(request):
        raise NotAllowed(
            "this request comes from a page of another site, so it is refused; a proxy in front"
            " has to pass Host on as it came"
        )
