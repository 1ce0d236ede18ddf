"""The page of help says what there is: every key, status, verb and verdict."""

from __future__ import annotations

import re
from pathlib import Path

from sqlalchemy.orm import Session

from queueapp.console import actions, glossary, places, switches
from queueapp.jobs import operations
from queueapp.jobs.queries import Did, View
from queueapp.jobs.status import Status
from queueapp.jobs.verdict import RULES
from tests.console.conftest import Console, words
from tests.factories import make_job

ROOT = Path(__file__).parents[2]
SCRIPT = (ROOT / "static" / "app.js").read_text()


def test_it_says_every_word_and_what_to_do_about_each_verdict(console: Console) -> None:
    shown = words(console.get("/help"))

    assert set(glossary.STATUSES) == {*Status, *View}
    assert set(glossary.VERBS) == set(Did)
    for about in (*glossary.STATUSES.values(), *glossary.VERBS.values()):
        assert about in shown
    for rule in RULES:
        assert f"Next: {' '.join(rule.step.replace('`', ' ').split())}" in re.sub(" +", " ", shown)
    assert "stalled 60s a job is due for longer than this" in shown


def test_every_verb_that_there_is_stands_in_help_and_in_the_filter_of_the_audit(
    console: Console,
) -> None:
    of_kinds = {f"{verb}-kind" for verb in switches.OF_KIND}
    verbs = {*operations.VERBS, operations.UNDO, *actions.VERBS, "canary", "release", "purge",
             "pause", "resume", *of_kinds}  # fmt: skip
    for verb in verbs:
        assert f'id="verb-{verb}"' in console.get("/help"), verb
    listed = console.get("/audit")
    assert verbs <= set(re.findall(r'<option value="([a-z-]+)"', listed))
    shown = words(listed)
    for name in ("run now", "undo", "retry 5 first"):
        assert name in shown


def test_the_keys_are_those_of_the_script(console: Console) -> None:
    [handled] = re.findall(r"const KEYS = \{\n(.*?)\n\};", SCRIPT, re.DOTALL)
    keys = set(re.findall(r'^  "?([^\s":]+)"?: ', handled, re.MULTILINE))
    told = {key.removeprefix("Shift ") for one in places.KEYS for key in one.keys}

    # The browser's own.
    assert told - {"Enter", "Esc"} == keys


def test_each_place_has_a_key_of_its_own_and_is_on_every_page(console: Console) -> None:
    keys = [place.key for place in places.PLACES if place.key]
    assert len(keys) == len(set(keys))

    page = console.get("/jobs")
    linked = dict(re.findall(r'<a href="([^"]+)" data-key="(\w)"', page))
    assert sorted(linked.values()) == sorted(keys)
    assert (linked["/audit"], linked["/help"], linked["/settings"]) == ("a", "h", "p")
    dialog = page[page.index('<dialog id="help"') :]
    for place in places.PLACES:
        assert not place.key or f"<kbd>{place.key}</kbd></dt><dd>{place.label}</dd>" in dialog


def test_every_page_has_one_heading_and_its_place_in_the_navigation(
    console: Console, session: Session
) -> None:
    job = make_job(session, Status.FAILED)
    session.commit()
    made = console.post("/operations", verb="retry", kind="demo.echo", reason="r").location
    for path, place in {
        "/": "Now", "/pause": "Now", "/jobs": "Jobs", f"/jobs/{job.id}": "Jobs",
        f"/jobs/{job.id}/retry": "Jobs", "/jobs/bulk?verb=retry": "Jobs", "/errors": "Errors",
        f"/errors/{job.error_fingerprint}": "Errors", "/kinds": "Kinds", "/kinds/a.b": "Kinds",
        "/kinds/a.b/hold": "Kinds", "/events": "Events", "/workers": "Workers",
        "/system": "System", "/audit": "Audit", "/operations": "Operations",
        "/operations/new": "Operations", str(made): "Operations", "/settings": "Settings",
        "/help": "Help",
    }.items():  # fmt: skip
        page = console.get(path)
        header, _, main = page.partition("<main")
        assert len(re.findall("<h1", page)) == main.count("<h1") == 1, path
        marked = re.findall(r"<a [^>]*aria-current[^>]*>([A-Z]\w+)", header)
        # On a phone some pages of the row are under More as well.
        assert set(marked) == {place}, path
        is_behind = place in {one.label for one in places.MORE}
        assert ("More : " + place in words(header)) == is_behind, path


def test_the_documentation_names_the_same_keys() -> None:
    docs = (ROOT / "docs" / "console.md").read_text()
    table = docs.partition("\n| key |")[2].partition("\n\n")[0]
    keys = {key for one in places.KEYS for shown in one.keys for key in shown.split()}

    for place in places.PLACES:
        assert not place.key or f"`g` `{place.key}`" in table, place
    assert {key for key in keys - {"Esc"} if f"`{key}`" not in table} == set()
