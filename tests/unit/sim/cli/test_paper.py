from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from robot_sdk.errors import InvalidArgumentError
from sim.cli import paper
from sim.paper.case import Case, Workplace
from sim.paper.rows import Row


def arguments(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    paper.add_arguments(parser)
    return parser.parse_args(words)


def case_that(run: object) -> dict[str, Case]:
    return {"some": Case("a case", 1.0, run)}  # type: ignore[arg-type]


def test_a_folder_that_cannot_be_written_is_told_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[Workplace] = []
    monkeypatch.setattr(paper, "all_cases", lambda: case_that(ran.append))
    (tmp_path / "file").write_text("")

    assert paper.run(arguments("--out", str(tmp_path / "file" / "out"))) == 2
    assert "cannot write into" in capsys.readouterr().err
    assert ran == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("nothing",), "no case nothing; there are: some"),
        (("report", "some"), "report stands alone"),
        (("--seeds", "0"), "at least 1"),
        (("--processes", "100000"), "at most 256"),
        (("--study-engine", "/proc"), "fetch_study_engine.sh"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_made_is_refused_in_one_line(
    words: tuple[str, ...],
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    ran: list[Workplace] = []
    monkeypatch.setattr(paper, "all_cases", lambda: case_that(ran.append))
    assert paper.run(arguments(*words)) == 2
    error = capsys.readouterr().err
    assert told in error
    assert len(error.splitlines()) == 1
    assert ran == []


def test_a_result_that_nobody_can_read_is_named_and_the_report_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(paper, "all_cases", lambda: case_that(print))
    (tmp_path / "some.json").write_text("[" * 100_000)
    assert paper.run(arguments("report", "--out", str(tmp_path))) == 0
    assert "some.json cannot be read" in capsys.readouterr().out


def outcome(tmp_path: Path, name: str = "some") -> dict[str, object]:
    content = json.loads((tmp_path / f"{name}.json").read_text())
    assert isinstance(content, dict)
    return content


def test_an_interrupted_case_keeps_what_it_finished_and_says_that_it_is_partial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(workplace: Workplace) -> None:
        for done in workplace.map(abs, [-1, -2, -3], "sums"):
            if done == 2:
                raise KeyboardInterrupt

    monkeypatch.setattr(paper, "all_cases", lambda: case_that(interrupted))

    assert paper.run(arguments("--out", str(tmp_path), "--processes", "1")) == 130
    told = capsys.readouterr().out
    assert "some: interrupted; what was finished is kept" in told
    assert "some: done" not in told
    left = outcome(tmp_path)
    assert (left["partial"], left["why"], left["finished"]) == (
        True,
        "interrupted",
        {"sums": [1, 2]},
    )
    assert "Partial: interrupted. Finished: 2 of sums." in (tmp_path / "report.html").read_text()


def test_an_interruption_does_not_cost_an_earlier_complete_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(workplace: Workplace) -> None:
        raise KeyboardInterrupt

    Workplace(tmp_path, 1, str).write_case("some", [Row("N20", "rps", "1/s", 2, 2)], settings={})
    monkeypatch.setattr(paper, "all_cases", lambda: case_that(interrupted))

    assert paper.run(arguments("--out", str(tmp_path))) == 130
    assert "the earlier, complete some.json is kept" in capsys.readouterr().out
    assert outcome(tmp_path)["partial"] is False


@pytest.mark.parametrize(
    "error", [ValueError("no such thing"), InvalidArgumentError("no such thing", field="cap")]
)
def test_a_case_that_fails_is_named_and_does_not_lose_the_others(
    error: Exception,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def failing(_: Workplace) -> None:
        raise error

    def working(workplace: Workplace) -> None:
        workplace.write_case("other", [Row("N20", "rps", "1/s", 2, 2)], settings={})

    cases = case_that(failing) | {"other": Case("another", 1.0, working)}
    monkeypatch.setattr(paper, "all_cases", lambda: cases)

    assert paper.run(arguments("--out", str(tmp_path))) == 1
    assert "failed: some; the others were made" in capsys.readouterr().out
    assert outcome(tmp_path, "other")["partial"] is False
    why = outcome(tmp_path)["why"]
    assert isinstance(why, str)
    assert "failed" in why
    assert "no such thing" in why


def test_a_case_is_told_how_it_is_to_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Workplace] = []
    monkeypatch.setattr(paper, "all_cases", lambda: case_that(asked.append))
    study = tmp_path / "engine"
    (study / "vllm" / "vllm").mkdir(parents=True)
    (study / "vllm" / "vllm" / "__init__.py").write_text("")
    (study / "dependencies").mkdir()

    options = ["--quick", "--seeds", "3", "--processes", "2", "--study-engine", str(study)]
    assert paper.run(arguments("--out", str(tmp_path / "out"), *options)) == 0
    workplace = asked[0]
    assert (workplace.quick, workplace.seeds(10, 1), workplace.num_processes) == (
        True,
        (0, 1, 2),
        2,
    )
    assert workplace.engine_versions == ("study", "installed")
    assert workplace.command("some") == "python -m sim paper some --quick --seeds 3"


@pytest.mark.parametrize(
    ("chosen", "named"),
    [((), "so needing will run"), (("needing",), "so needing will"), (("some",), "")],
)
def test_the_studys_engine_is_missed_only_where_a_chosen_case_needs_it(
    chosen: tuple[str, ...],
    named: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    cases = case_that(str) | {"needing": Case("another", 1.0, str, uses_study_engine=True)}  # type: ignore[arg-type]
    monkeypatch.setattr(paper, "all_cases", lambda: cases)
    monkeypatch.setattr(paper, "STUDY_ENGINE", tmp_path / "nothing")

    assert paper.run(arguments(*chosen, "--out", str(tmp_path))) == 0
    notices = [line for line in capsys.readouterr().out.splitlines() if "0.17.1" in line]
    assert len(notices) == bool(named)
    assert all(named in line and "make study-engine" in line for line in notices)


def test_what_follows_is_told_where_something_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cases = case_that(str) | {"other": Case("another", 1.5, str, quick_minutes=0.2)}  # type: ignore[arg-type]
    monkeypatch.setattr(paper, "all_cases", lambda: cases)

    assert paper.run(arguments("--out", str(tmp_path))) == 0
    told = capsys.readouterr().out.splitlines()
    assert "[1/2] some: a case (about 1 min; 2.5 min with all that follow)" in told
    assert "[2/2] other: another (about 1.5 min)" in told


def test_the_list_says_what_its_minutes_are_and_sums_them_up(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cases = case_that(str) | {"other": Case("another", 1.5, str, quick_minutes=0.2)}  # type: ignore[arg-type]
    monkeypatch.setattr(paper, "all_cases", lambda: cases)

    assert paper.run(arguments("--list")) == 0
    first, *_, last = capsys.readouterr().out.splitlines()
    assert "two quiet cores" in first
    assert last.split() == ["all", "2.5", "min", "(1.2", "quick)"]


def test_without_the_studys_engine_a_case_runs_on_the_installed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[Workplace] = []
    monkeypatch.setattr(paper, "all_cases", lambda: case_that(asked.append))
    monkeypatch.setattr(paper, "STUDY_ENGINE", tmp_path / "nothing")

    assert paper.run(arguments("--out", str(tmp_path))) == 0
    assert "0.17.1" not in capsys.readouterr().out
    assert asked[0].engine_versions == ("installed",)
    assert (asked[0].seeds(10, 2), len(asked[0].seeds(4, 2))) == (tuple(range(10)), 4)


def test_the_word_report_makes_the_report_of_what_is_there_and_runs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[Workplace] = []
    cases = case_that(asked.append) | {"other": Case("another", 1.0, print)}  # type: ignore[arg-type]
    monkeypatch.setattr(paper, "all_cases", lambda: cases)
    Workplace(tmp_path, 1, str).write_case("other", [Row("N20", "rps", "1/s", 2, 2)], settings={})

    assert paper.run(arguments("report", "--out", str(tmp_path))) == 0
    assert (tmp_path / "report.html").is_file()
    assert "not run: some" in capsys.readouterr().out
    assert asked == []


@pytest.mark.parametrize("folder", ["", "nothing"])
def test_there_is_no_report_of_a_folder_without_results(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(paper, "all_cases", lambda: case_that(print))

    assert paper.run(arguments("report", "--out", str(tmp_path / folder))) == 2
    shown = capsys.readouterr()
    assert "holds no result" in shown.err
    assert (shown.out, shown.err.count("\n")) == ("", 1)
    assert list(tmp_path.iterdir()) == []
