from __future__ import annotations

import re
from pathlib import Path

from sim.paper.case import Case, Picture, Workplace
from sim.paper.report import write_report
from sim.paper.rows import Row

CASES = {
    "static-cap": Case("caps <at> N=48", 1.0, lambda _: None),
    "cliff": Case("who keeps what", 1.0, lambda _: None),
}
ROWS = [
    Row("N48_K20", "rps", "1/s", 2.377, 2.374, (2.37, 2.378), within=0.06),
    Row("N48_K24", "rps", "1/s", 2.132, 1.5, within=0.06, variant="vLLM 0.32.0"),
    Row("N48_K20", "hit", "share", 0.9995, None, within=0.06),
    Row("N48_K20", "turns", "", None, 4000),
]


def test_the_page_holds_rows_verdicts_and_pictures_in_one_file(tmp_path: Path) -> None:
    (tmp_path / "caps.png").write_bytes(b"a picture")
    Workplace(tmp_path, 1, str).write_case(
        "static-cap",
        ROWS,
        settings={"seeds": [0, 1]},
        pictures=[Picture("caps.png", "caps & hits", figure=10), Picture("gone.png", "gone")],
        notes=["N=48 wants <more>, says `server plan`."],
    )
    lines = write_report(tmp_path, CASES)

    assert "static-cap       1 of 2 judged rows inside, 1 not judged, 1 not run" in lines
    assert "  outside: N48_K24 rps vLLM 0.32.0" in lines
    assert "not run: cliff" in lines
    text = (tmp_path / "report.html").read_text()
    assert "<b>not judged</b> are rows that have none" in text
    assert "data:image/png;base64,YSBwaWN0dXJl" in text
    assert "caps &lt;at&gt; N=48" in text
    assert "N=48 wants &lt;more&gt;, says <code>server plan</code>." in text
    assert "The picture gone.png is not there." in text
    assert '<tr class="outside">' in text
    assert "-29.6%" in text
    assert re.search(r"figure 10</td>.*\n?.*caps &amp; hits", text)
    assert re.search(r"figure 7</td>.*not made: <code>python -m sim paper cliff</code>", text)


def test_broken_and_foreign_files_do_not_cost_the_report(tmp_path: Path) -> None:
    (tmp_path / "cliff.json").write_text('{"case": "cliff", "rows":')
    (tmp_path / "other.json").write_text('{"case": "other"}')
    (tmp_path / "mixed-rates.json").write_text('{"rows": []}')
    (tmp_path / "list.json").write_text("[]")
    lines = write_report(tmp_path, CASES)
    assert any(line.startswith("cliff.json cannot be read: JSONDecodeError") for line in lines)
    assert any(line.startswith("other.json cannot be read: KeyError") for line in lines)
    assert not any("mixed-rates.json" in line or "list.json" in line for line in lines)


def test_a_report_of_an_empty_folder_says_that_nothing_was_run(tmp_path: Path) -> None:
    assert "not run: static-cap, cliff" in write_report(tmp_path, CASES)


def test_a_case_without_a_judged_row_is_not_counted_as_none_of_none(tmp_path: Path) -> None:
    Workplace(tmp_path, 1, str).write_case("cliff", ROWS[3:], settings={})
    assert "cliff            no row judged, 1 not judged, 0 not run" in write_report(
        tmp_path, CASES
    )


def test_of_many_rows_those_that_nobody_judges_are_folded_away(tmp_path: Path) -> None:
    judged = [Row(f"N{n}", "rps", "1/s", 2.0, 2.0, within=0.06) for n in range(20)]
    others = [Row(f"N{n}", "turns", "", None, 4000) for n in range(30)]
    Workplace(tmp_path, 1, str).write_case("cliff", [*judged, *others], settings={})
    write_report(tmp_path, CASES)

    text = (tmp_path / "report.html").read_text()
    shown, _, folded = text.partition("<details><summary>30 rows that are not judged</summary>")
    assert (shown.count("<td>turns</td>"), folded.count("<td>turns</td>")) == (0, 30)
    assert shown.count('class="inside"') == 20


def test_a_partial_case_shows_the_rows_and_pictures_that_it_made_so_far(tmp_path: Path) -> None:
    (tmp_path / "caps.png").write_bytes(b"a picture")
    workplace = Workplace(tmp_path, 1, str)
    workplace.finished["caps"] = [1, 2]
    workplace.keep_draft(
        ROWS[:1], settings={}, pictures=[Picture("caps.png", "so far")], notes=["of two seeds"]
    )
    workplace.write_partial("static-cap", "interrupted")
    lines = write_report(tmp_path, CASES)

    text = (tmp_path / "report.html").read_text()
    assert "static-cap       partial: interrupted" in lines
    assert "Partial: interrupted. Finished: 2 of caps." in text
    assert "<td>N48_K20</td>" in text
    assert "<figcaption>so far</figcaption>" in text
    assert "of two seeds" in text
