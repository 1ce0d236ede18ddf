"""Sign in with a name and a password, and out again; without a script like everything else."""

from __future__ import annotations

import logging

from flask import Response, current_app, redirect, render_template, request, url_for
from werkzeug.wrappers import Response as AnyResponse

from queueapp.auth import open_to_all, origin, session
from queueapp.auth.people import MOST_PASSWORD, Person, who_knows
from queueapp.auth.proxies import Proxies
from queueapp.auth.throttle import LoginThrottle
from queueapp.console import back
from queueapp.console.blueprint import bp
from queueapp.errors import NotAllowed, PageNotFound

log = logging.getLogger(__name__)

LARGEST_FORM = 16 * 1024
LONGEST_NAME = 100
WRONG = "Name or password is wrong."
PLAIN = (
    "passwords are taken over https only: open the console at its https address; a proxy in front"
    " has to say X-Forwarded-Proto: https"
)


@bp.get("/login")
@open_to_all
def login() -> AnyResponse:
    """Ask who is there."""
    people = _people()
    if session.who_is_signed_in(people):
        return redirect(_next(), 303)
    return _form()


@bp.post("/login")
@open_to_all
def sign_in() -> AnyResponse:
    """Let in who knows the password; tell the others no more than that it is wrong."""
    people, throttle = _people(), _throttle()
    request.max_content_length = LARGEST_FORM
    if not origin.is_encrypted(request):
        raise NotAllowed(PLAIN)
    name, password = request.form.get("name", "").strip(), request.form.get("password", "")
    proxies: Proxies = current_app.extensions["queue_proxies"]
    address = proxies.address_of(request)
    with throttle.a_place() as is_free:
        # Counted before the password is looked at: tries at the same time count as well.
        if wait := throttle.take(address, name) if is_free else 1:
            said = f"Too many tries. Try again in {wait} second{'' if wait == 1 else 's'}."
            return _form(said, 429, {"Retry-After": str(wait)})
        person = who_knows(people, name, password)
    if person is None:
        # Not the name: people type their password there.
        log.warning("a sign-in from %s failed", address)
        return _form(WRONG, 401, {"WWW-Authenticate": 'Bearer realm="queue"'})
    throttle.give_back(address, name)
    session.sign_in(person)
    log.info("%s signed in from %s", person.principal.actor, address)
    return redirect(_next(), 303)


@bp.post("/logout")
@open_to_all
def sign_out() -> AnyResponse:
    """Forget who is there."""
    _people()
    session.sign_out()
    return redirect(url_for(".login"), 303)


def _people() -> dict[str, Person]:
    people: dict[str, Person] = current_app.extensions["queue_people"]
    if not session.is_possible():
        raise PageNotFound("nobody signs in here: nobody has a password (QUEUE_USERS)")
    return people


def _throttle() -> LoginThrottle:
    throttle: LoginThrottle = current_app.extensions["queue_login_throttle"]
    return throttle


def _next() -> str:
    wanted = request.form.get("next") or request.args.get("next", "")
    return back.checked(wanted, url_for(".now"))


def _form(said: str = "", status: int = 200, headers: dict[str, str] | None = None) -> Response:
    body = render_template(
        "pages/login.html",
        said=said,
        wrong=status == 401,
        name=request.form.get("name", "")[:LONGEST_NAME],
        next=_next(),
        undone="undone" in request.args,
        longest_name=LONGEST_NAME,
        longest_password=MOST_PASSWORD,
    )
    return Response(body, status, headers, mimetype="text/html")
