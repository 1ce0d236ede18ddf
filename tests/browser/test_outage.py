"""PostgreSQL ends under open pages: they stay, say so once, and go on by themselves."""

from __future__ import annotations

import signal
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import BrowserContext, Page, expect
from sqlalchemy.orm import Session

from queueapp.jobs import control
from queueapp.jobs.models import Job
from queueapp.jobs.status import Status
from tests.console.test_operation_page import plan
from tests.factories import make_job
from tests.live.checks import stand
from tests.live.cluster import Cluster
from tests.live.journey import Journey
from tests.live.processes import until

# What the pages say to those who do not see them, each time that it is said.
LISTEN = """
window.alarms = [];
addEventListener("DOMContentLoaded", () => {
  const alarm = document.querySelector("#alarm");
  new MutationObserver(() => alarm.textContent && alarms.push(alarm.textContent))
    .observe(alarm, { childList: true, characterData: true, subtree: true });
});
"""
# Nothing of these asks by itself.
STILL = ("/audit", "/settings", "/help")
# What is shown of the last look outlives the database, and says that nothing of now is known.
GREY = "/"
# After failures a page waits up to a minute before it asks again.
BACK_MS = 90_000


def seed(session: Session) -> list[str]:
    """Something on each page; their addresses."""
    failed = make_job(session, Status.FAILED)
    # No worker renews it: its lease is as long as the test may take.
    ends = datetime.now(UTC) + timedelta(hours=1)
    running = make_job(session, Status.RUNNING, lease_expires_at=ends)
    control.hold_kind(session, "a.b", actor="user:ana", reason="r")
    session.commit()
    operation, _ids = plan(session, 3)
    return [
        "/", "/jobs", f"/jobs/{running.id}", "/errors",
        f"/errors/{session.get_one(Job, failed.id).error_fingerprint}", "/kinds",
        "/kinds/demo.echo", "/workers", f"/workers/{running.locked_by}", "/events", "/operations",
        operation, "/system", *STILL,
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_every_open_page_outlives_the_database(
    context: BrowserContext,
    cluster: Cluster,
    cluster_journey: Journey,
    expected_errors: list[str],
) -> None:
    expected_errors += ["503", "Failed to load", "htmx:error", "Failed to fetch"]
    with Session(cluster_journey.engine) as session:
        paths = seed(session)
    web = cluster_journey.web(threads=4)
    context.add_init_script(LISTEN)
    tabs: dict[str, Page] = {}
    for path in paths:
        tabs[path] = context.new_page()
        tabs[path].goto(f"http://127.0.0.1:{web.port}{path}")
    before = {path: tab.inner_text("#main") for path, tab in tabs.items()}
    asks = [path for path in paths if tabs[path].locator("[hx-trigger^=every]").count()]
    assert set(asks) == set(paths) - set(STILL) - {paths[11]}

    cluster.end(signal.SIGINT)

    for path in asks:
        if path == GREY:
            expect(tabs[path].locator("#verdict")).to_have_attribute(
                "data-level", "unknown", timeout=60_000
            )
            expect(tabs[path].locator("#panel")).to_contain_text("what stands below was")
            continue
        expect(tabs[path].locator("#panel[data-stale]")).to_be_visible(timeout=60_000)
        expect(tabs[path].locator("#as-of-note")).to_contain_text("no answer, retrying in")
    # Another failure is no other alarm.
    jobs = tabs["/jobs"]
    until(lambda: jobs.evaluate("refresh.failures > 1"), "a second refresh fails", within=60)
    expect(jobs.locator("#badge")).to_have_attribute("data-level", "unknown")
    for path, tab in tabs.items():
        said = tab.evaluate("alarms")
        stale = path in asks and path != GREY
        assert said == ["The last refresh failed. What is shown may be old."] * stale, path
        assert tab.inner_text("#main h1, #main h2 >> nth=0") in before[path], path
        assert len(tab.inner_text("#main")) > 0.7 * len(before[path]), path
    # A page that is opened now asks again by itself.
    late = context.new_page()
    late.goto(f"http://127.0.0.1:{web.port}/jobs")
    expect(late.locator("main")).to_contain_text("This page asks again every 10 seconds by itself.")

    cluster.start_again()

    expect(late.locator("#panel")).to_be_visible(timeout=BACK_MS)
    for path in asks:
        tab = tabs[path]
        expect(tab.locator("#panel[data-stale]")).to_have_count(0, timeout=BACK_MS)
        expect(tab.locator("#as-of-note")).to_have_text("")
        assert len(tab.evaluate("alarms")) == (path != GREY), path
        expect(tab.locator("#badge")).not_to_have_attribute(
            "data-level", "unknown", timeout=BACK_MS
        )
    stand(cluster_journey, every_claim_started=False)
