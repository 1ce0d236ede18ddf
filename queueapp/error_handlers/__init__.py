"""Errors become answers: problem+json for programs, a fragment or a page for people.

Programs live under ``/api`` and at the few addresses beside it; there no answer is ever HTML.
"""

from __future__ import annotations

import json
import logging

from flask import Flask, Response, current_app, render_template, request
from jinja2 import TemplateNotFound
from markupsafe import escape
from werkzeug.exceptions import HTTPException
from werkzeug.wrappers import Response as AnyResponse

from queueapp.auth.access import BESIDE_API
from queueapp.error_handlers import sign_in
from queueapp.error_handlers.faults import Problem, deliberate, problem_of
from queueapp.error_handlers.headers import logged_path, request_id, secure
from queueapp.error_handlers.story import story
from queueapp.error_handlers.streams import watch
from queueapp.jobs import on_behalf

__all__ = ["deliberate", "init_app"]

log = logging.getLogger(__name__)

# What cannot be shown for the moment is asked for again without anybody's doing.
AGAIN_S = 10


def init_app(app: Flask) -> None:
    """Answer every exception, and put the security headers on every answer."""
    app.before_request(_name_request)
    app.teardown_request(_forget_request)
    app.register_error_handler(Exception, answer)
    app.after_request(secure)
    app.after_request(watch)


def _name_request() -> None:
    """Let what this request does be found by its id, in the ledger as in the log."""
    on_behalf.REQUEST.set(request_id())


def _forget_request(_error: BaseException | None) -> None:
    on_behalf.REQUEST.set(None)


def answer(error: Exception) -> AnyResponse | HTTPException:
    """Turn any exception of a request into its answer."""
    if isinstance(error, HTTPException) and (error.code is None or error.code < 400):
        return error  # a redirect
    problem = problem_of(error)
    if problem.status >= 500:
        _log(problem, error)
    if _for_a_program():
        return _problem_json(problem)
    if sign_in.leads_there(problem.code):
        return sign_in.lead(_page(problem), is_fragment=_wants_fragment())
    return _page(problem)


def _for_a_program() -> bool:
    return f"{request.path}/".startswith("/api/") or request.path in BESIDE_API


def _log(problem: Problem, error: Exception) -> None:
    where = (request.method, logged_path(), request_id())
    if problem.code == "internal_error":
        log.error("%s %s failed, request %s\n%s", *where, story(error))
    else:
        log.warning("%s %s, request %s: %s (%s)", *where, problem.code, _cause(error))


def _cause(error: Exception) -> str:
    origin = getattr(error, "orig", None)
    state = getattr(origin, "sqlstate", None)
    # Without an SQLSTATE there was no connection yet, hence no statement and no values to quote.
    return f"SQLSTATE {state}" if state else str(origin or error).strip()


def _problem_json(problem: Problem) -> Response:
    members = {
        **problem.context,
        "type": f"{request.script_root}/api/docs/#{problem.code}",
        "title": problem.title,
        "status": problem.status,
        "detail": problem.detail,
        "code": problem.code,
        "request_id": request_id(),
    }
    body = json.dumps(members, default=str)
    response = Response(body, problem.status, content_type="application/problem+json")
    response.headers.extend(problem.headers)
    return response


def _page(problem: Problem) -> Response:
    template = "fragments/notice.html" if _wants_fragment() else "pages/error.html"
    response = Response(_rendered(template, problem), problem.status, mimetype="text/html")
    response.headers.extend(problem.headers)
    if _again_s(problem) and not _wants_fragment():
        response.headers["Refresh"] = str(AGAIN_S)
    return response


def _again_s(problem: Problem) -> int | None:
    """When the page is asked for again by itself; None: never, as after whatever is not a look."""
    return AGAIN_S if problem.status == 503 and request.method == "GET" else None


def _wants_fragment() -> bool:
    kind = request.headers.get("HX-Request-Type")
    return kind == "partial" or (kind is None and "HX-Request" in request.headers)


def _rendered(template: str, problem: Problem) -> str:
    try:
        return render_template(
            template,
            title=problem.title,
            message=problem.detail,
            code=problem.code,
            status=problem.status,
            again_s=_again_s(problem),
        )
    except TemplateNotFound:
        pass
    # A page that asks the database for its frame must not turn one failure into two.
    except Exception as error:
        if current_app.testing:
            raise
        log.error("cannot render %s\n%s", template, story(error))
    return f'<p role="alert">{escape(problem.title)}: {escape(problem.detail)}</p>'
