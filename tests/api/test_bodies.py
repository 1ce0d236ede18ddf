"""Bodies that break off on their way."""

from __future__ import annotations

import io

from flask.testing import FlaskClient


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
