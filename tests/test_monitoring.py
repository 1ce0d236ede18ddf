"""The alert rules and the board ask for what ``/metrics`` tells, and lead to what there is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from queueapp.jobs.metrics import FAMILIES, Type
from queueapp.jobs.metrics.measuring import PARTS
from queueapp.jobs.metrics.samples import JOB_EVENTS, READINGS
from queueapp.jobs.minute_totals import KIND_EVENTS
from queueapp.jobs.status import Status
from queueapp.jobs.verdict import RULES
from queueapp.jobs.verdict.catalogue import HEALTHY, UNKNOWN

ROOT = Path(__file__).parent.parent
ALERTS = yaml.safe_load((ROOT / "monitoring" / "alerts.yml").read_text())
BOARD = json.loads((ROOT / "monitoring" / "grafana.json").read_text())
RULES_OF_ALERTS = [rule for group in ALERTS["groups"] for rule in group["rules"]]

LABELS = {
    family.name + suffix: {*family.labels, *({"le"} if suffix == "_bucket" else ())}
    for family in FAMILIES
    for suffix in (("_bucket", "_count") if family.type is Type.HISTOGRAM else ("",))
}
# What Prometheus adds to every series.
SCRAPED = {"job", "instance"}
VALUES: dict[tuple[str, str], set[Any]] = {
    ("queue_verdict_rule", "rule"): {*(rule.code for rule in RULES), UNKNOWN, HEALTHY},
    ("queue_finding_level", "rule"): {rule.code for rule in RULES},
    ("queue_jobs", "status"): set(Status),
    ("queue_events_total", "event"): set(JOB_EVENTS),
    ("queue_kind_events_total", "event"): set(KIND_EVENTS),
    ("queue_reading_ok", "reading"): {*READINGS, *PARTS},
}

METRIC = re.compile(r"\b(queue_\w+)(?:{([^}]*)})?")
MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')
GROUPED = re.compile(r"\b(?:by|without|on|ignoring)\s*\(([^)]*)\)")
SPAN = re.compile(r"(?:\d+[smhd])+")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = BOARD["panels"]
    return found


def expressions() -> Iterator[tuple[str, str]]:
    for rule in RULES_OF_ALERTS:
        yield rule["alert"], rule["expr"]
    for panel in panels():
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
    for note in BOARD["annotations"]["list"]:
        yield note["name"], note["expr"]


EXPRESSIONS = list(expressions())


def faults(expression: str) -> list[str]:
    """What an expression asks for that nobody tells."""
    found, labels = [], set(SCRAPED)
    for name, matchers in METRIC.findall(expression):
        found += [] if name in LABELS else [f"no metric {name}"]
        labels |= LABELS.get(name, set())
        for label, how, value in MATCHER.findall(matchers):
            known = VALUES.get((name, label))
            wanted = set(value.split("|")) if "~" in how else {value}
            if label not in LABELS.get(name, set()) | SCRAPED:
                found.append(f"{name} has no label {label}")
            elif known is not None and not wanted <= known:
                found.append(f"{name} has no {label} {wanted - known}")
    for group in GROUPED.findall(expression):
        found += [f"no label {one}" for one in re.split(r"\s*,\s*", group) if one not in labels]
    return found


def test_every_metric_and_label_that_is_asked_for_is_told() -> None:
    assert len(EXPRESSIONS) > 30
    wrong = {place: found for place, one in EXPRESSIONS if (found := faults(one))}
    assert wrong == {}
    for _, one in EXPRESSIONS:
        assert one.count("(") == one.count(")")


@pytest.mark.parametrize(
    ("expression", "fault"),
    [
        ("max(queue_dew)", "no metric queue_dew"),
        ('queue_due{kind="a"}', "queue_due has no label kind"),
        ('queue_finding_level{rule=~"stalled|stuck"}', "queue_finding_level has no rule {'stuck'}"),
        ("max by (job, table) (queue_due)", "no label table"),
        ("rate(queue_wait_seconds[5m])", "no metric queue_wait_seconds"),
    ],
)
def test_what_nobody_tells_is_found(expression: str, fault: str) -> None:
    assert faults(expression) == [fault]


def test_alerts_are_whole_and_each_has_its_page() -> None:
    names = [rule["alert"] for rule in RULES_OF_ALERTS]
    assert len(set(names)) == len(names)
    for rule in RULES_OF_ALERTS:
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}, rule["alert"]
        assert SPAN.fullmatch(rule.get("for", "0s")), rule["alert"]
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert set(rule["annotations"]) == {"summary", "description", "runbook"}
        page, _, anchor = rule["annotations"]["runbook"].partition("#")
        assert (ROOT / page).exists(), rule["alert"]
        assert not anchor or anchor in anchors(ROOT / page), rule["alert"]


def anchors(page: Path) -> set[str]:
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-")
            for head in HEADING.findall(page.read_text())}  # fmt: skip


def test_every_red_rule_of_the_verdict_pages_somebody() -> None:
    paged = " ".join(
        rule["expr"] for rule in RULES_OF_ALERTS if rule["labels"]["severity"] == "page"
    )

    assert [rule.code for rule in RULES if "red" in rule.levels and rule.code not in paged] == []


def test_every_rule_of_the_verdict_says_what_to_do() -> None:
    titles = anchors(ROOT / "docs" / "verdict.md")

    assert [
        rule.title for rule in RULES if rule.title.lower().replace(" ", "-") not in titles
    ] == []


def test_panels_lie_side_by_side_and_ask_one_source() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"])
                 for y in range(at["y"], at["y"] + at["h"])}  # fmt: skip
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells
        assert panel["datasource"]["uid"] == "${datasource}"
    assert {one["name"] for one in BOARD["templating"]["list"]} == {"datasource", "job"}
