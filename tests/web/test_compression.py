"""Answers in fewer bytes: the same content, marks and headers, and no stream held up for it."""

from __future__ import annotations

import gzip
import sys

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response

from queueapp import compression
from queueapp.jobs.status import Status
from tests.console.conftest import PANEL
from tests.factories import make_job

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

# As browsers ask over http and over https.
HTTP = {"Accept-Encoding": "gzip, deflate"}
HTTPS = {"Accept-Encoding": "gzip, deflate, br, zstd"}
STYLE = "/static/app.css"


@pytest.fixture
def path(session: Session) -> str:
    """A page that has an address of its own, and does not change."""
    job_id = make_job(session, Status.SUCCEEDED, payload={"order": "a" * 2_000}).id
    session.commit()
    return f"/jobs/{job_id}"


def content(answer: Response) -> bytes:
    assert answer.headers["Content-Length"] == str(len(answer.data))
    unpack = {"gzip": gzip.decompress, "zstd": zstd.decompress}
    return unpack[answer.headers["Content-Encoding"]](answer.data)


def varies(answer: Response) -> set[str]:
    return {name.strip() for name in answer.headers["Vary"].split(",")}


def test_a_panel_is_the_same_in_fewer_bytes(client: FlaskClient, path: str) -> None:
    plain = client.get(path, headers=PANEL)
    assert "Content-Encoding" not in plain.headers

    for asked, used in ((HTTP, "gzip"), (HTTPS, "zstd")):
        packed = client.get(path, headers=PANEL | asked)

        assert packed.headers["Content-Encoding"] == used
        assert content(packed).startswith(b'<section id="panel" class="job"')
        assert len(packed.data) < len(plain.data) / 2
        for answer in (plain, packed):
            assert varies(answer) == {"HX-Request-Type", "HX-Target", "Accept-Encoding"}
            assert answer.headers["HX-PTag"] == plain.headers["HX-PTag"]
            assert answer.headers["Cache-Control"] == "no-store"
            assert answer.headers["Content-Type"] == plain.headers["Content-Type"]


def test_a_panel_that_is_the_same_has_no_body(client: FlaskClient, path: str) -> None:
    tag = client.get(path, headers=PANEL | HTTP).headers["HX-PTag"]

    again = client.get(path, headers=PANEL | HTTP | {"HX-PTag": tag})

    assert (again.status_code, again.data) == (304, b"")
    assert "Content-Encoding" not in again.headers


def test_each_form_of_a_job_has_a_mark_of_its_own(client: FlaskClient, path: str) -> None:
    address = f"/api{path}"
    plain = client.get(address)
    for asked in (HTTP, HTTPS):
        packed = client.get(address, headers=asked)
        mark = packed.headers["ETag"]

        assert content(packed) == plain.data
        assert mark != plain.headers["ETag"]
        for shown in (mark, f"W/{mark}", f'"other", {mark}', "*"):
            again = client.get(address, headers=asked | {"If-None-Match": shown})
            assert (again.status_code, again.data) == (304, b""), shown
            assert "Content-Encoding" not in again.headers
        other = client.get(address, headers=asked | {"If-None-Match": '"other"'})
        assert (other.status_code, other.data) == (200, packed.data)
        head = client.head(address, headers=asked)
        assert (head.status_code, head.data, head.headers["ETag"]) == (200, b"", mark)
        assert head.headers["Content-Length"] == str(len(packed.data))
        assert varies(packed) == {"Authorization", "Accept-Encoding"}


def test_what_is_small_or_not_asked_for_so_stays_as_it_is(client: FlaskClient, path: str) -> None:
    for address, asked in (
        ("/healthz", HTTP),
        (path, {"Accept-Encoding": "gzip;q=0"}),
        (path, {"Accept-Encoding": "br"}),
        (path, {}),
    ):
        answer = client.get(address, headers=asked)
        assert "Content-Encoding" not in answer.headers
        assert "Accept-Encoding" in varies(answer)


def test_an_export_goes_out_as_it_is_read(client: FlaskClient, path: str) -> None:
    for address in ("/events.csv", "/events.ndjson", "/api/jobs.csv", "/api/jobs.ndjson"):
        answer = client.get(address, headers=HTTP, buffered=False)

        assert answer.is_streamed
        assert "Content-Encoding" not in answer.headers
        assert "Content-Length" not in answer.headers
        assert len(list(answer.iter_encoded())) >= 1
        answer.close()


def test_a_static_file_is_compressed_once(
    client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = client.get(STYLE)
    first = client.get(f"{STYLE}?v=1", headers=HTTP)
    assert content(first) == plain.data
    plain.close()

    def never(*_: object) -> bytes:
        raise AssertionError("compressed again")

    monkeypatch.setattr("flask_compress.flask_compress._compress_data", never)
    for address in (f"{STYLE}?v=2", "/static/vendor/../app.css"):
        assert client.get(address, headers=HTTP).data == first.data
    assert first.headers["Cache-Control"] == "public, max-age=31536000, immutable"
    again = client.get(STYLE, headers=HTTP | {"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.data) == (304, b"")


def test_a_part_of_a_static_file_is_a_part_of_it(client: FlaskClient) -> None:
    with client.get(STYLE) as whole:
        text = whole.data
    with client.get(STYLE, headers=HTTP | {"Range": "bytes=10-1999"}) as part:
        assert part.status_code == 206
        assert part.data == text[10:2_000]
        assert "Content-Encoding" not in part.headers
    with client.get(STYLE, headers=HTTP) as packed:
        assert content(packed) == text


@pytest.mark.parametrize(("site", "used"), [
    ("cross-site", None), ("same-site", None), ("same-origin", "gzip"), ("none", "gzip"),
])  # fmt: skip
def test_what_another_site_has_a_browser_ask_is_as_long_as_it_is(
    client: FlaskClient, path: str, site: str, used: str | None
) -> None:
    answer = client.get(path, headers=HTTP | {"Sec-Fetch-Site": site})

    assert answer.headers.get("Content-Encoding") == used


def test_nothing_of_an_answer_to_a_question_is_kept(app: Flask) -> None:
    files = compression._Files()

    files.set("gzip;", b"a page")
    files.set("gzip;mark", b"a file")

    assert files.get("gzip;") is None
    assert files.get("gzip;mark") == b"a file"
