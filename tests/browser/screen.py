"""Short ways to say what the browser tests say most."""

from __future__ import annotations

from playwright.sync_api import Page, Response

ROW = "#panel tbody tr.job-row"


def refresh(page: Page) -> Response:
    """Have the panel refreshed now, and wait until the answer is on the page."""
    with page.expect_response(_is_panel) as answer:
        page.evaluate("htmx.trigger(document.querySelector('#panel'), 'refresh')")
    answer.value.finished()
    page.wait_for_function("!document.querySelector('#panel').matches('.htmx-request')")
    return answer.value


def _is_panel(response: Response) -> bool:
    return response.request.headers.get("hx-target") == "section#panel"


def row_ids(page: Page) -> list[int]:
    """The jobs of the list, in their order."""
    return [int(row.removeprefix("job-")) for row in page.eval_on_selector_all(ROW, IDS)]


IDS = "rows => rows.map(row => row.id)"


def width_of_content(page: Page) -> int:
    """How wide the page would like to be; more than the window means a horizontal scroll bar."""
    width: int = page.evaluate("document.documentElement.scrollWidth")
    return width
