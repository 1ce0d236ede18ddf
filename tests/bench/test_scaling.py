"""The measured part of docs/scaling.md, made from raw lines."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from bench import raw, scaling
from bench.__main__ import main
from bench.installation import ROOT
from bench.ladder import SERIES
from bench.raw import Line
from bench.results import Results
from tests.bench.test_report import conditions, measured

SERIAL, CORES = 20e-6, 2.0
ALONE = {"noop": 100e-6, "wait": 500e-6, "strict": 300e-6, "sql100": 60e-6, "sql10": 120e-6}


def rung(series: str, count: int, round_: int = 0, **changed: Any) -> Line:
    cpu = ALONE[series] * 0.8
    figures = {
        "rate": 1 / max(SERIAL + ALONE[series] / count, cpu / CORES), "jobs": 20_000,
        "secs": 2.0, "whole": False, "cpu_worker": cpu * 500, "cpu_server": cpu * 500,
        "wal": 1534.2, "jobs_a_commit": 87.5, "step": "ladder",
    }  # fmt: skip
    return measured("ours", f"ladder {series} {count}", round_, **{**figures, **changed})


def a_ladder() -> list[Line]:
    return [
        measured("limit", "one", 0, rate=2000.0, cpu_server=0.4, step="one"),
        measured("limit", "batch", 0, rate=40000.0, cpu_server=0.03, step="batch"),
        *(rung(series, count) for count in (1, 2, 4) for series in ALONE),
    ]


def row_of(page: str, begins: str) -> list[str]:
    (row, *_) = re.findall(rf"^\| ({re.escape(begins)}.*) \|$", page, re.MULTILINE)
    return str(row).split(" | ")


def test_every_rung_stands_in_the_table_beside_what_the_model_says() -> None:
    results = Results(a_ladder())
    part = scaling.text(conditions(), results, scaling._model(conditions(), results))

    assert set(ALONE) == {series.name for series in SERIES}
    one = row_of(part, "no-op jobs, defaults | 1")
    assert one[2:7] == ["8,333", "0.040", "0.040", "87.5", "1,534"]
    assert abs(int(one[7].removesuffix(" %"))) <= 5
    assert row_of(part, "the barest queue by pgbench, 100")[2] == "40,000"
    on_32 = row_of(part, "32")
    assert len(on_32) == 1 + 3 + 2
    # Ten milliseconds of the handler's own: 32 processors cannot do more than 3,200 a second.
    assert int(on_32[-1].split("–")[-1].replace(",", "")) <= 3200


def test_a_failed_rung_is_told_and_leaves_the_others() -> None:
    lines = [one for one in a_ladder() if one["workload"] != "ladder noop 4"]
    lines.append(measured("ours", "ladder noop 4", 0, status="failed", why="no job ran"))

    results = Results(lines)
    part = scaling.text(conditions(), results, scaling._model(conditions(), results))

    assert row_of(part, "no-op jobs, defaults | 4")[2:] == ["failed", *["–"] * 5]
    assert "serial part" in part


def test_a_ladder_alone_renews_its_part_of_the_page_and_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = tmp_path / "results"
    results.mkdir()
    run = [conditions(partial=True), *a_ladder()]
    (results / "20300102-030405.jsonl").write_text("\n".join(map(json.dumps, run)))

    assert main(["--report", "--scratch", str(tmp_path)]) == 0

    assert [file.name for file in (tmp_path / "page").glob("*.md")] == ["scaling.md"]
    page = (tmp_path / "page" / "scaling.md").read_text()
    old = (ROOT / "docs" / "scaling.md").read_text()
    for part in (0, 2):
        marks = re.compile("(<!-- bench ladder (?:begin|end) -->)")
        assert marks.split(page)[part * 2] == marks.split(old)[part * 2]
    assert "2030-01-02" in page
    tree = ET.parse(tmp_path / "page" / "images" / scaling.PICTURE).getroot()
    circles = tree.findall(".//{http://www.w3.org/2000/svg}circle")
    assert len(circles) == len(a_ladder()) - 2
    assert "no-op jobs, defaults" in capsys.readouterr().out


def test_a_run_taken_up_again_has_its_figures_once(tmp_path: Path) -> None:
    known = conditions(code="abc")
    first = raw.Raw(tmp_path, known)
    first.add("ours", "w3", 0, step="w3", status="failed", why="the machine went away")
    first.add("ours", "w1", 0, step="w1", rate=5.0)
    assert raw.steps_done(first.path) == {(0, "ours", "w1")}

    again = raw.Raw(tmp_path, {**known, "rounds": 5}, again=first.path)
    again.add("ours", "w3", 0, step="w3", rate=7.0)

    found, lines = raw.read(first.path)
    assert (found["rounds"], found["date"]) == (5, known["date"])
    assert [(line["workload"], line["status"]) for line in lines] == [("w1", "ok"), ("w3", "ok")]
    with pytest.raises(ValueError, match="code differ"):
        raw.Raw(tmp_path, {**known, "code": "other"}, again=first.path)
