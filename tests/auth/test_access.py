"""Every route against every role: the declared permission decides, and nothing else lets in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.routing import Rule

from queueapp import create_app
from queueapp.api.contract import is_ours
from queueapp.auth import Permission, Role, open_to_all, permits
from queueapp.auth.access import declared
from queueapp.auth.roles import GRANTS
from tests.auth.conftest import bearer

# What the documentation promises; the code is compared with it.
API = {
    ("POST", "/api/jobs"): "operator admin producer",
    ("POST", "/api/jobs/bulk"): "operator admin producer",
    ("GET", "/api/jobs"): "viewer operator admin producer",
    ("GET", "/api/jobs/<job_id>"): "viewer operator admin producer",
    ("GET", "/api/jobs/<job_id>/events"): "viewer operator admin producer",
    ("GET", "/api/jobs.csv"): "viewer operator admin producer",
    ("GET", "/api/jobs.ndjson"): "viewer operator admin producer",
    ("GET", "/api/events"): "viewer operator admin",
    ("POST", "/api/jobs/<job_id>/cancel"): "operator admin producer",
    ("GET", "/api/jobs/<job_id>/why"): "viewer operator admin producer",
    ("POST", "/api/jobs/<job_id>/retry"): "operator admin",
    ("POST", "/api/jobs/<job_id>/clone"): "admin",
    ("POST", "/api/jobs/<job_id>/purge"): "admin",
    ("POST", "/api/jobs/<job_id>/hold"): "operator admin",
    ("POST", "/api/jobs/<job_id>/unhold"): "operator admin",
    ("POST", "/api/jobs/<job_id>/reschedule"): "operator admin",
    ("POST", "/api/jobs/<job_id>/run-now"): "operator admin",
    ("POST", "/api/jobs/<job_id>/release"): "operator admin",
    ("POST", "/api/operations"): "operator admin",
    ("GET", "/api/operations/<operation_id>"): "viewer operator admin",
    ("POST", "/api/operations/<operation_id>/apply"): "operator admin",
    ("POST", "/api/operations/<operation_id>/stop"): "operator admin",
    ("GET", "/api/kinds"): "viewer operator admin producer worker",
    ("GET", "/api/kinds/<kind>"): "viewer operator admin producer worker",
    ("POST", "/api/kinds/<kind>/hold"): "operator admin",
    ("POST", "/api/kinds/<kind>/unhold"): "operator admin",
    ("POST", "/api/queue/pause"): "operator admin",
    ("POST", "/api/queue/resume"): "operator admin",
    ("GET", "/api/switches"): "viewer operator admin",
    ("GET", "/api/errors"): "viewer operator admin",
    ("GET", "/api/workers"): "viewer operator admin",
    ("GET", "/api/workers/<worker>"): "viewer operator admin",
    ("POST", "/api/workers/<worker>/drain"): "operator admin",
    ("POST", "/api/workers/<worker>/release"): "operator admin",
    ("GET", "/api/stats"): "viewer operator admin",
    ("GET", "/metrics"): "viewer operator admin",
    ("GET", "/api/system"): "viewer operator admin",
    ("GET", "/api/verdict"): "viewer operator admin",
    ("POST", "/api/leases"): "admin worker",
    ("POST", "/api/leases/progress"): "admin worker",
    ("POST", "/api/leases/renew"): "admin worker",
    ("POST", "/api/leases/settle"): "admin worker",
    ("GET", "/api/operations"): "viewer operator admin",
    ("POST", "/api/operations/<operation_id>/undo"): "operator admin",
}
CONSOLE = {
    ("GET", "/"): "viewer operator admin",
    ("GET", "/audit"): "viewer operator admin",
    ("GET", "/audit.csv"): "viewer operator admin",
    ("GET", "/audit.ndjson"): "viewer operator admin",
    ("GET", "/events"): "viewer operator admin",
    ("GET", "/events.csv"): "viewer operator admin",
    ("GET", "/events.ndjson"): "viewer operator admin",
    ("GET", "/go"): "viewer operator admin",
    ("GET", "/help"): "viewer operator admin",
    # What one's own browser remembers: nothing of the queue changes.
    ("GET", "/settings"): "viewer operator admin",
    ("POST", "/settings"): "viewer operator admin",
    ("GET", "/kinds"): "viewer operator admin",
    ("GET", "/kinds/<kind>"): "viewer operator admin",
    ("GET", "/kinds/<kind>/<verb>"): "operator admin",
    ("POST", "/kinds/<kind>/<verb>"): "operator admin",
    ("GET", "/pause"): "operator admin",
    ("POST", "/pause"): "operator admin",
    ("GET", "/resume"): "operator admin",
    ("POST", "/resume"): "operator admin",
    ("GET", "/jobs"): "viewer operator admin",
    ("GET", "/jobs.csv"): "viewer operator admin",
    ("GET", "/jobs.ndjson"): "viewer operator admin",
    ("GET", "/jobs/<int:job_id>"): "viewer operator admin",
    ("GET", "/jobs/<int:job_id>/<verb>"): "operator admin",
    ("POST", "/jobs/<int:job_id>/<verb>"): "operator admin",
    ("GET", "/jobs/<int:job_id>/clone"): "admin",
    ("POST", "/jobs/<int:job_id>/clone"): "admin",
    ("GET", "/jobs/<int:job_id>/purge"): "admin",
    ("POST", "/jobs/<int:job_id>/purge"): "admin",
    ("GET", "/jobs/<int:job_id>/reschedule"): "operator admin",
    ("POST", "/jobs/<int:job_id>/reschedule"): "operator admin",
    ("GET", "/jobs/bulk"): "operator admin",
    ("POST", "/jobs/bulk"): "operator admin",
    ("GET", "/errors"): "viewer operator admin",
    ("GET", "/errors/<fingerprint>"): "viewer operator admin",
    ("POST", "/errors/<fingerprint>"): "operator admin",
    ("GET", "/operations"): "viewer operator admin",
    ("POST", "/operations"): "operator admin",
    ("GET", "/operations/<operation_id>"): "viewer operator admin",
    ("POST", "/operations/<operation_id>/apply"): "operator admin",
    ("POST", "/operations/<operation_id>/count"): "operator admin",
    ("POST", "/operations/<operation_id>/stop"): "operator admin",
    ("POST", "/operations/<operation_id>/undo"): "operator admin",
    ("GET", "/operations/new"): "operator admin",
    ("GET", "/system"): "viewer operator admin",
    ("GET", "/workers"): "viewer operator admin",
    ("GET", "/workers/<path:name>"): "viewer operator admin",
    ("GET", "/workers/release"): "operator admin",
    ("POST", "/workers/release"): "operator admin",
    ("GET", "/workers/drain"): "operator admin",
    ("POST", "/workers/drain"): "operator admin",
}
OPEN = {"static", "health.healthz", "health.readyz", "api_openapi.openapi", "api_docs.page"}
OPEN |= {"console.login", "console.sign_in", "console.sign_out"}


@pytest.fixture
def app(fresh_app: Flask) -> Flask:
    """These tests add routes to it and break it."""
    return fresh_app


def routes(app: Flask) -> Iterator[tuple[str, Rule]]:
    for rule in app.url_map.iter_rules():
        for method in sorted((rule.methods or set()) - {"HEAD", "OPTIONS"}):
            yield method, rule


def address(rule: Rule) -> str:
    values = dict.fromkeys(rule.arguments, "999999")
    built = rule.build(values)
    assert built is not None
    return built[1]


def test_every_route_declares_its_permission(guarded: Flask) -> None:
    endpoints = {rule.endpoint for _, rule in routes(guarded)}

    assert {name for name in endpoints if declared(guarded, name) is None} == OPEN


def test_each_route_grants_what_is_promised(guarded: Flask) -> None:
    found = {}
    for method, rule in routes(guarded):
        permission = declared(guarded, rule.endpoint)
        if permission is not None:
            found[method, rule.rule] = {role.value for role in GRANTS[permission]}

    assert found == {route: set(roles.split()) for route, roles in {**API, **CONSOLE}.items()}


@pytest.mark.parametrize("role", Role)
def test_each_role_gets_exactly_where_its_permissions_reach(
    guarded: Flask, caller: FlaskClient, role: Role
) -> None:
    for method, rule in routes(guarded):
        permission = declared(guarded, rule.endpoint)
        for verb in {method, "HEAD" if method == "GET" else method}:
            answer = caller.open(address(rule), method=verb, headers=bearer(role))
            refused = permission is not None and role not in GRANTS[permission]
            assert (answer.status_code == 403) is refused, (verb, rule.rule)
            assert answer.status_code not in (401, 500)


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_without_a_token_nothing_is_shown_or_done(
    guarded: Flask, caller: FlaskClient, method: str
) -> None:
    for _, rule in routes(guarded):
        if rule.endpoint in OPEN:
            continue
        answer = caller.open(
            address(rule), method=method, headers={"X-HTTP-Method-Override": "GET"}
        )
        # 405: the router's own answer, the same to everybody.
        wanted = 401 if is_ours(rule.rule) else 403
        assert answer.status_code in (wanted, 405), rule.rule


@pytest.mark.parametrize(
    "header",
    [
        "", "Bearer", "Bearer admin-secre", "Bearer  admin-secret", "Basic YWRtaW46YQ==",
        "Bearer caf\xe9", "Bearer \xf0\x9f\x94\x91", 'Bearer "admin-secret"',
        "Bearer admin-secret\n",
        "Bearer admin-secret, Bearer admin-secret", "Bearer \x00", "Bearer " + "a" * 1_000_000,
    ],
    ids=lambda header: ascii(header[:30]),
)  # fmt: skip
def test_odd_authorization_headers_are_all_answered_alike(
    caller: FlaskClient, caplog: pytest.LogCaptureFixture, header: str
) -> None:
    answer = caller.get("/api/jobs", environ_overrides={"HTTP_AUTHORIZATION": header})

    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == 'Bearer realm="queue"'
    assert answer.json is not None
    assert answer.json["code"] == "not_authenticated"
    assert answer.json["detail"] == "the Authorization header holds no valid bearer token"
    assert caplog.text == ""


def test_whoever_shows_a_bad_token_is_not_taken_for_the_person_at_the_machine(
    client: FlaskClient,
) -> None:
    assert client.get("/api/jobs").status_code == 200
    assert client.get("/api/jobs", headers=bearer("admin")).status_code == 401


def test_with_tokens_the_machine_itself_needs_one_for_the_api(guarded: Flask) -> None:
    assert guarded.test_client().get("/api/jobs").status_code == 401


def test_with_tokens_the_console_stays_with_the_machine_itself(
    guarded: Flask, caller: FlaskClient
) -> None:
    guarded.add_url_rule("/somewhere", view_func=permits(Permission.ADMIN)(somewhere))

    assert guarded.test_client().get("/somewhere").status_code == 200
    refused = caller.get("/somewhere")
    assert refused.status_code == 403
    assert "ssh -L" in refused.text


def test_a_token_needs_no_origin(caller: FlaskClient) -> None:
    headers = {**bearer("producer"), "Origin": "https://elsewhere.example"}

    assert caller.post("/api/jobs", json={"kind": "demo.echo"}, headers=headers).status_code == 201


def test_a_route_without_a_permission_is_refused(database_url: str) -> None:
    app = create_app({"DATABASE_URL": database_url})
    app.add_url_rule("/forgotten", view_func=somewhere_else)

    answer = app.test_client().get("/forgotten")

    assert answer.status_code == 403
    app.testing = True
    assert app.test_client().get("/forgotten").status_code == 500


def test_an_open_route_is_open(guarded: Flask, caller: FlaskClient) -> None:
    guarded.add_url_rule("/open", view_func=open_to_all(lambda: "welcome"))

    assert caller.get("/open").text == "welcome"


def somewhere() -> str:
    return "here"


def somewhere_else() -> str:
    return "there"


# A producer sees and cancels what it has produced, and learns nothing of the rest.


def make(caller: FlaskClient, role: str, **fields: object) -> int:
    answer = caller.post("/api/jobs", json={"kind": "demo.echo", **fields}, headers=bearer(role))
    assert answer.json is not None
    job_id: int = answer.json["id"]
    return job_id


def test_a_producer_follows_and_cancels_its_own_job(caller: FlaskClient) -> None:
    mine = make(caller, "producer")

    for path in (f"/api/jobs/{mine}", f"/api/jobs/{mine}/events"):
        assert caller.get(path, headers=bearer("producer")).status_code == 200
    answer = caller.post(f"/api/jobs/{mine}/cancel", headers=bearer("producer"))
    assert answer.json is not None
    assert answer.json["status"] == "cancelled"


def test_a_producer_learns_nothing_of_the_jobs_of_others(caller: FlaskClient) -> None:
    others, none = make(caller, "operator"), 999_999

    for method, path in (("GET", ""), ("GET", "/events"), ("POST", "/cancel")):
        answers = [
            caller.open(f"/api/jobs/{job_id}{path}", method=method, headers=bearer("producer"))
            for job_id in (others, none)
        ]
        assert [answer.status_code for answer in answers] == [404, 404]
        details = [(answer.json or {})["detail"] for answer in answers]
        assert details == [f"there is no job {others}", f"there is no job {none}"]


def test_a_producer_lists_its_own_jobs_only(caller: FlaskClient) -> None:
    make(caller, "operator")
    mine = make(caller, "producer")

    listed = caller.get("/api/jobs", headers=bearer("producer")).json
    asked = caller.get("/api/jobs?producer=the-operator", headers=bearer("producer"))

    assert listed is not None
    assert [job["id"] for job in listed["items"]] == [mine]
    assert asked.status_code == 403


@pytest.mark.parametrize("form", ["csv", "ndjson"])
def test_a_producer_exports_its_own_jobs_only(caller: FlaskClient, form: str) -> None:
    make(caller, "operator", payload={"message": "of others"})
    make(caller, "producer", payload={"message": "mine"})

    path = f"/api/jobs.{form}?fields=payload"
    exported = caller.get(path, headers=bearer("producer"))
    asked = caller.get(f"{path}&producer=the-operator", headers=bearer("producer"))

    assert "mine" in exported.text
    assert "of others" not in exported.text
    assert asked.status_code == 403


def test_keys_of_two_producers_never_meet(caller: FlaskClient) -> None:
    first = make(caller, "producer", idempotency_key="k", payload={"message": "secret"})
    answer = caller.post(
        "/api/jobs",
        json={"kind": "demo.echo", "idempotency_key": "k", "payload": {"message": "other"}},
        headers=bearer("operator"),
    )

    assert answer.status_code == 201
    assert answer.json is not None
    assert answer.json["id"] != first


def test_the_token_is_the_actor_in_the_ledger(caller: FlaskClient) -> None:
    job_id = make(caller, "producer")
    caller.post(
        f"/api/jobs/{job_id}/cancel", headers=bearer("operator"), json={"reason": "not wanted"}
    )

    events = caller.get(f"/api/jobs/{job_id}/events", headers=bearer("viewer")).json
    assert events is not None
    assert [(line["event"], line["actor"], line["reason"]) for line in events["items"]] == [
        ("enqueued", "token:the-producer", None),
        ("cancelled", "token:the-operator", "not wanted"),
    ]
    assert {line["data"]["via"] for line in events["items"]} == {"api"}
