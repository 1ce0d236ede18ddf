"""A reader of the console's pages: asks as a browser or as the page's script would."""

from __future__ import annotations

import html
import re

import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

PANEL = {"HX-Request": "true", "HX-Request-Type": "partial", "HX-Target": "section#panel"}
DIALOG = {**PANEL, "HX-Target": "div#dialog-body"}


class Console:
    """The console as a browser on this machine sees it."""

    def __init__(self, client: FlaskClient) -> None:
        self.client = client

    def get(self, path: str, **headers: str) -> str:
        """The page as text; it must be one."""
        answer = self.client.get(path, headers=headers)
        assert answer.status_code == 200, answer.text
        assert answer.text.startswith("<!doctype html>")
        return answer.text

    def panel(self, path: str, tag: str | None = None) -> TestResponse:
        """What the page's script gets when it refreshes the panel."""
        return self.client.get(path, headers=PANEL | ({"HX-PTag": tag} if tag else {}))

    def unchanged(self, path: str) -> TestResponse:
        """Refresh until there is nothing new; the answer that says so.

        Another database of the server may have a transaction end between two refreshes.
        """
        tag = self.panel(path).headers["HX-PTag"]
        for _ in range(20):
            answer = self.panel(path, tag)
            if answer.status_code == 304:
                return answer
            tag = answer.headers["HX-PTag"]
        raise AssertionError(f"{path} never stays the same")

    def post(self, path: str, **form: object) -> TestResponse:
        """What a browser without scripts sends."""
        return self.client.post(path, data=form)

    def click(self, path: str, **form: object) -> TestResponse:
        """What the dialog sends."""
        return self.client.post(path, data=form, headers=DIALOG)


def job_ids(page: str) -> list[int]:
    """The rows of a list of jobs, in their order."""
    return [int(found) for found in re.findall(r'<tr id="job-(\d+)"', page)]


def words(page: str) -> str:
    """What a reader sees: the text without markup and the head."""
    text = re.sub(r"<head.*?</head>|<dialog.*?</dialog>|<[^>]+>", " ", page, flags=re.DOTALL)
    return " ".join(html.unescape(text).split())


def stands_beside(name: str, page: str) -> str:
    """What the form says of the field ``name``, which is marked and has the focus."""
    [field] = re.findall(rf'<(?:input|select) [^>]*name="{name}"[^>]*>', page)
    assert 'aria-invalid="true"' in field
    assert "autofocus" in field
    assert re.search(rf'aria-describedby="wrong-{name}[ "]', field)
    [said] = re.findall(rf'id="wrong-{name}"[^>]*>(.*?)</small>', page, re.DOTALL)
    return words(str(said))


@pytest.fixture
def console(client: FlaskClient) -> Console:
    return Console(client)
