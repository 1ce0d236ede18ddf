"""Who has signed in: a signed cookie that ends with its time, or when the password changes.

The cookie holds a name and a mark of the password's hash, no role: that is looked up each time.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Mapping
from datetime import timedelta

from flask import Flask, current_app, request, session
from flask.sessions import SecureCookieSessionInterface

from queueapp.auth import origin
from queueapp.auth.people import Person


class _Sessions(SecureCookieSessionInterface):
    def get_cookie_secure(self, app: Flask) -> bool:
        """Always but on the machine itself, where there is no https."""
        return not origin.names_loopback(request.environ.get("HTTP_HOST", ""))

    def get_cookie_name(self, app: Flask) -> str:
        """Where it is secure, a name that browsers let no other host of the domain set."""
        name = super().get_cookie_name(app)
        return f"__Host-{name}" if self.get_cookie_secure(app) else name


def init_app(app: Flask, people: Mapping[str, Person], *, secret: str, length_s: float) -> None:
    """Set the cookie up; where nobody has a password there is no key, and so no session."""
    app.session_interface = _Sessions()
    app.config["SESSION_COOKIE_NAME"] = "queue_session"
    app.config["SESSION_COOKIE_HTTPONLY"] = True
    # Lax: a link to a job that somebody sends does not ask who is there again.
    app.config["SESSION_COOKIE_SAMESITE"] = "Lax"
    # Counted from the sign-in, however much is done in between.
    app.config["SESSION_REFRESH_EACH_REQUEST"] = False
    app.permanent_session_lifetime = timedelta(seconds=length_s)
    has_passwords = any(person.password_hash for person in people.values())
    app.secret_key = (secret or _secret_of(people.values())) if has_passwords else None


def is_possible() -> bool:
    """Whether anybody can sign in here."""
    return current_app.secret_key is not None


def _secret_of(people: Iterable[Person]) -> str:
    """A key that all processes have, made from what only they know."""
    known = sorted(f"{person.principal.name}:{person.password_hash}" for person in people)
    return hashlib.sha256("\n".join(("queue session key", *known)).encode()).hexdigest()


def sign_in(person: Person) -> None:
    """Remember ``person`` in the browser."""
    session.clear()
    session.permanent = True
    session["name"], session["mark"] = person.principal.name, _mark(person)


def sign_out() -> None:
    """Forget whoever is remembered in the browser."""
    session.clear()


def who_is_signed_in(people: Mapping[str, Person]) -> Person | None:
    """Whose browser makes the request; None when it is nobody's, or nobody's any more."""
    if not is_possible():
        return None
    person = people.get(session.get("name", ""))
    if (
        person is None
        or not person.password_hash
        or not hmac.compare_digest(session.get("mark", ""), _mark(person))
    ):
        return None
    return person


def _mark(person: Person) -> str:
    key = str(current_app.secret_key).encode()
    return hmac.new(key, person.password_hash.encode(), hashlib.sha256).hexdigest()
