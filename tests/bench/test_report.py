from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from bench import raw, report
from bench.__main__ import main
from bench.charts import Row, bars, points
from bench.raw import Line
from bench.results import Results
from bench.workloads import FULL

SVG = "{http://www.w3.org/2000/svg}"


def measured(peer: str, workload: str, round_: int, **figures: Any) -> Line:
    line = {"peer": peer, "workload": workload, "round": round_, "load": 1.0, "status": "ok"}
    return {**line, **figures}


def drained(peer: str, workload: str, round_: int, rate: float) -> Line:
    figures = {"rate": rate, "jobs": 20000, "secs": 20000 / rate, "whole": True}
    cost = {"cpu_worker": 0.05, "cpu_server": 0.04, "peak_mib": 88.5}
    return measured(peer, workload, round_, **figures, **cost)


def conditions(**changed: Any) -> Line:
    known: Line = {
        "workload": "conditions",
        "date": "2030-01-02 03:04 UTC",
        "machine": "2 × some processor, 8 GiB, some system",
        "load_at_start": 0.1,
        "versions": {"PostgreSQL": "18.1", "Redis": "7.0", "Python": "3.13"},
        "postgresql_settings": {"shared_buffers": "512MB"},
        "peers": {"ours": "0.1.0", "pgqueuer-fast": "1.6.0", "bullmq": ""},
        "size": {name: getattr(FULL, name) for name in FULL.__dataclass_fields__},
        "quick": False,
        "partial": False,
        "rounds": 3,
    }
    return {**known, **changed}


def run_of_three_rounds() -> list[Line]:
    lines: list[Line] = []
    for round_, (ours, other) in enumerate([(12000.0, 10000), (9000.0, 6000.0), (8000.0, 2000.0)]):
        lines += [
            measured("limit", "one", round_, rate=2000.0, cpu_server=0.4),
            measured("limit", "batch", round_, rate=40000.0, cpu_server=0.03),
            measured("ours", "w1", round_, rate=2000.0),
            measured("ours", "w2", round_, rate=50000.0),
            drained("ours", "w3", round_, ours),
            drained("ours", "w5", round_, ours * 0.9),
            measured("ours", "w4", round_, p50=1.2, p95=3.0, p99=7.5, worst=9.0, jobs=300, of=300),
            measured("ours", "memory", round_, jobs=200_000, peak_mib=95.0, rate=9000.0,
                     mib_at={"25": 90.0, "50": 91.0, "75": 91.0, "100": 91.0}),
            drained("pgqueuer-fast", "w3", round_, other),
            measured("pgqueuer-fast", "w4", round_, status="failed", why="jobs | 3 never ran"),
            measured("bullmq", "w3", round_, status="missing", why="no redis-server here"),
        ]  # fmt: skip
    return lines


def row_of(page: str, begins: str) -> list[str]:
    """The cells of the first table row whose first cell begins so."""
    (row, *_) = re.findall(rf"^\| ({re.escape(begins)}.*) \|$", page, re.MULTILINE)
    return str(row).split(" | ")


def test_the_page_has_medians_ratios_and_conditions() -> None:
    page = report.text(conditions(), Results(run_of_three_rounds()))

    speed = page.partition("## Speed")[2]
    assert row_of(speed, "**this product**")[3:6] == [
        "9,000 (8,000–12,000)",
        "0.23 (0.20–0.30)",
        "4.50 (4.00–6.00)",
    ]
    assert row_of(page, "drain ÷ PgQueuer, fast")[1] == "× 1.50 (1.20–4.00)"
    assert row_of(page, "drain with many waiting")[1] == "× 0.90 (0.90–0.90)"
    assert "90.0 (90.0–90.0) after 50,000" in row_of(page, "worker's memory")[1]
    assert "PostgreSQL 18.1, Redis 7.0" in page
    assert "2030-01-02" in page
    assert "quick run" not in page


def test_what_is_missing_or_failed_stands_in_the_tables_with_its_reason() -> None:
    page = report.text(conditions(), Results(run_of_three_rounds()))

    speed, waits = page.partition("## Speed")[2], page.partition("## From idle")[2]
    assert row_of(speed, "BullMQ (Redis)")[3] == "missing"
    assert row_of(waits, "PgQueuer, fast")[1] == "failed"
    why = row_of(page.partition("## Not measured")[2], "BullMQ (Redis)")
    assert why[1:] == ["w3", "1", "missing", "no redis-server here"]
    assert "jobs / 3 never ran" in page


def test_a_failed_round_among_good_ones_is_told() -> None:
    lines = run_of_three_rounds()
    lines[4] = measured("ours", "w3", 0, status="failed", why="1 of 20000 jobs never ran")

    page = report.text(conditions(), Results(lines))

    assert row_of(page.partition("## Speed")[2], "**this product**")[3].endswith(", 1 failed")


@pytest.mark.parametrize("draw", [bars, points])
def test_a_chart_is_readable_in_both_schemes_and_says_what_it_shows(draw: Any) -> None:
    rows = [
        Row("this <product>", "12 & more", 12.0, 10.0, 14.0, ours=True),
        Row("slow", "0.01", 0.01),
        Row("absent", "missing"),
    ]

    chart = draw("Title <1>", "About it.", rows)

    tree = ET.fromstring(chart)
    title, about = tree.find(f"{SVG}title"), tree.find(f"{SVG}desc")
    assert title is not None
    assert title.text == "Title <1>"
    assert about is not None
    assert "this <product>: 12 & more; slow: 0.01; absent: missing" in str(about.text)
    assert tree.get("role") == "img"
    assert tree.get("aria-labelledby") == f"{title.get('id')} {about.get('id')}"
    assert "prefers-color-scheme: dark" in chart
    assert len(tree.findall(f".//{SVG}*[@class='bar']")) == 1
    assert len(tree.findall(f".//{SVG}*[@class='ours']")) == 1


def test_the_page_can_be_made_again_from_the_raw_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = tmp_path / "results"
    results.mkdir()
    lines = [conditions(partial=True, quick=True), *run_of_three_rounds()]
    newest = results / "20300102-030405.jsonl"
    newest.write_text("\n".join(map(json.dumps, lines)))
    (results / "20290102-030405.jsonl").write_text("an older one")
    (results / "notes.jsonl").write_text("somebody's own")

    status = main(["--report", "--scratch", str(tmp_path)])

    assert status == 0
    assert raw.newest(results) == newest
    page = (tmp_path / "page" / "benchmarks.md").read_text()
    assert "A quick run" in page
    for picture in re.findall(r"\]\((images/bench-\w+\.svg)\)", page):
        ET.parse(tmp_path / "page" / picture)
    said = capsys.readouterr().out
    assert "This was a quick run" in said
    assert "no redis-server here" in said
