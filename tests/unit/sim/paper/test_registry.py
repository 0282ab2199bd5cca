from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from sim.__main__ import main
from sim.fleet.replay import runner
from sim.paper import cases
from sim.paper.case import Workplace
from sim.paper.registry import all_cases, in_order


def test_every_file_of_the_cases_is_a_case_that_says_what_it_shows_and_how_long_it_takes() -> None:
    cases = all_cases()
    assert {"action-capacity", "mixed-rates"} <= set(cases)
    assert all(case.title and case.minutes > 0 for case in cases.values())


def test_all_cases_are_stated_to_take_less_than_40_minutes_and_less_than_4_when_quick() -> None:
    cases = all_cases().values()
    quick = [case.minutes if case.quick_minutes is None else case.quick_minutes for case in cases]
    assert sum(case.minutes for case in cases) < 40
    assert sum(quick) < 4


def test_every_case_that_runs_the_studys_engine_says_that_it_does() -> None:
    folder = Path(cases.__path__[0])
    for name, case in all_cases().items():
        source = (folder / f"{name.replace('-', '_')}.py").read_text(encoding="utf-8")
        runs_it = "workplace.engine_versions" in source or "workplace.study_folder" in source
        assert (name, case.uses_study_engine) == (name, runs_it)


def test_the_list_names_every_case_with_its_minutes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["paper", "--list"]) == 0
    printed = capsys.readouterr().out
    assert all(f"{name} " in printed for name in all_cases())
    assert " min " in printed


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["no-such-case"], "no case no-such-case; there are: "),
        (["report", "mixed-rates"], "report stands alone: "),
        (["mixed-rates", "--processes", "0"], "--processes is 0; it must be at least 1"),
        (["mixed-rates", "--processes", "9999"], "--processes is 9999; it must be at most 256"),
        (["mixed-rates", "--seeds", "0"], "--seeds is 0; it must be at least 1"),
        (["mixed-rates", "--seeds", "1001"], "--seeds is 1001; it must be at most 1000"),
        (["mixed-rates", "--study-engine", "sim"], "--study-engine: this folder does not hold"),
    ],
)
def test_wrong_arguments_are_named(
    arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["paper", *arguments]) == 2
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1
    assert named in printed


def test_cases_come_in_the_studys_order_and_unknown_ones_last() -> None:
    assert in_order(["zeta", "seams", "cliff", "alpha", "workload"]) == [
        "workload",
        "cliff",
        "seams",
        "alpha",
        "zeta",
    ]


def test_a_workplace_says_how_far_it_is_and_leaves_files_that_say_how_they_were_made(
    tmp_path: Path,
) -> None:
    said: list[str] = []
    workplace = Workplace(tmp_path, 1, said.append)
    assert list(workplace.map(abs, [-1, -2], "sums")) == [1, 2]
    workplace.write("sums", {"rows": [1, 2]})
    assert said[:2] == ["sums: 1 of 2", "sums: 2 of 2"]
    assert '"made_with": "robot-sdk' in (tmp_path / "sums.json").read_text()


def test_replays_of_a_case_are_kept_in_its_folder_and_what_came_before_an_interruption_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, object] = {}

    def interrupted(jobs: object, **options: object) -> Iterator[SimpleNamespace]:
        asked.update(options)
        fields = ("engine_version", "rps", "hit", "episodes_per_min", "jain", "first_low_hit_s")
        yield SimpleNamespace(seed=3, is_partial=False, **dict.fromkeys(fields))
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "run_many", interrupted)
    workplace = Workplace(tmp_path, 2, str, study_folder=tmp_path / "study")
    with pytest.raises(KeyboardInterrupt):
        workplace.replays([], "caps")
    assert [one["seed"] for one in workplace.finished["caps"]] == [3]
    assert asked["store"] == tmp_path / "replays.jsonl"
    assert (asked["processes"], asked["study_folder"]) == (2, tmp_path / "study")
