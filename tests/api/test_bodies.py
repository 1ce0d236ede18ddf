"""Bodies that break off on their way."""

from __future__ import annotations

import io

import pytest
from flask.testing import FlaskClient

from tests.api.conftest import problem


class ParseError(Exception):
    """As gunicorn's: no OSError."""


class Broken(io.RawIOBase):
    """What gunicorn gives for a body whose chunks are malformed."""

    def readable(self) -> bool:
        return True

    def seek(self, _offset: int, _whence: int = 0) -> int:
        return 0

    def tell(self) -> int:
        return 0

    def readinto(self, _buffer: object) -> int:
        raise ParseError("Invalid chunk size")


def test_a_body_with_malformed_chunks_is_a_bad_request(client: FlaskClient) -> None:
    answer = client.post(
        "/api/jobs",
        input_stream=Broken(),
        headers={"Transfer-Encoding": "chunked", "Content-Type": "application/json"},
        environ_overrides={"wsgi.input_terminated": True},
    )

    assert answer.status_code == 400
    assert "chunks are malformed" in answer.get_json()["detail"]


class Slow(Broken):
    """What a server gives whose patience with a client has ended."""

    def readinto(self, _buffer: object) -> int:
        raise TimeoutError


@pytest.mark.parametrize("length", [{"Content-Length": "100"}, {"Transfer-Encoding": "chunked"}])
@pytest.mark.parametrize("path", ["/api/jobs", "/api/jobs/bulk", "/api/leases"])
@pytest.mark.parametrize("kind", ["application/json", "application/x-ndjson"])
def test_a_body_that_comes_too_slowly_is_told_so(
    client: FlaskClient, length: dict[str, str], path: str, kind: str
) -> None:
    if kind != "application/json":
        path = "/api/jobs/bulk"
    answer = client.post(
        path,
        input_stream=Slow(),
        headers={**length, "Content-Type": kind},
        environ_overrides={"wsgi.input_terminated": True},
    )

    assert problem(answer) == (408, "request_timeout")


@pytest.mark.parametrize("kind", ["application/json", "application/x-ndjson"])
def test_a_part_of_a_body_creates_nothing(client: FlaskClient, kind: str) -> None:
    line = b'{"kind": "demo.echo"}\n'
    whole = b"[" + line.strip() + b"]" if kind == "application/json" else line

    answer = client.post(
        "/api/jobs/bulk",
        input_stream=io.BytesIO(whole),
        content_type=kind,
        environ_overrides={
            "CONTENT_LENGTH": str(len(whole) + 1), "wsgi.input_terminated": True,
        },
    )  # fmt: skip

    assert problem(answer) == (400, "bad_request")
    assert f"{len(whole)} bytes of {len(whole) + 1}" in answer.get_json()["detail"]
    assert client.get("/api/jobs").get_json()["items"] == []
