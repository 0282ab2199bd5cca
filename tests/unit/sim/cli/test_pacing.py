from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import numpy as np
import pytest
import tomllib

from robot_sdk.testing import RobotContract
from server.config import load
from sim.cli import pacing
from sim.cli.pacing import Case, NumberedRobot


def arguments(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    pacing.add_arguments(parser)
    return parser.parse_args(words)


@pytest.mark.parametrize(
    ("words", "cases"),
    [
        ((), [Case("paced", False), Case("unpaced", False), Case("paced", True)]),
        (("--paced",), [Case("paced", False)]),
        (("--unpaced", "--images"), [Case("unpaced", False), Case("paced", True)]),
    ],
)
def test_all_cases_are_run_unless_some_are_named(words: tuple[str, ...], cases: list[Case]) -> None:
    assert pacing._cases(arguments(*words)) == cases


@pytest.mark.parametrize("case", [Case("paced", True), Case("unpaced", False)])
def test_the_server_gets_settings_that_it_knows(tmp_path: Path, case: Case) -> None:
    settings = pacing._settings(arguments("--gpus", "2"), case, tmp_path / "table.json")
    policy = load(overrides=settings).policies["table"]
    assert policy.workers == 2
    assert policy.pacing is (case.discipline == "paced")
    assert policy.refuse_overload is False
    assert policy.options.get("image_px", 0) == (224 if case.images else 0)
    assert tomllib.loads(f"x = {settings[3].partition('=')[2]}")["x"] == policy.options


@pytest.mark.parametrize("word", ["--robots=0", "--hz=-1", "--gpus=0", "--seconds=nan"])
def test_numbers_that_make_no_fleet_are_named(
    word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert pacing.run(arguments(word)) == 2
    assert f"{word.partition('=')[0]} is " in capsys.readouterr().err


def test_a_result_that_cannot_be_written_is_told_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert pacing.run(arguments("--json", str(tmp_path / "file" / "result.json"))) == 2
    assert pacing.run(arguments("--json", str(tmp_path))) == 2
    told = capsys.readouterr().err.splitlines()
    assert "cannot write into" in told[0]
    assert "is a folder" in told[1]


def test_the_settings_of_a_result_are_numbers_and_the_cases_that_ran(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pacing, "_row", lambda args, case: {})
    monkeypatch.setattr(pacing, "_line", lambda row: "")
    path = tmp_path / "result.json"

    assert pacing.run(arguments("--robots", "3", "--seconds", "1.5", "--json", str(path))) == 0

    told = json.loads(path.read_text())["settings"]
    assert (told["robots"], told["hz"], told["seconds"], told["seed"]) == (3, 20.0, 1.5, 0)
    assert {"discipline": "paced", "images": True} in told["cases"]
    assert len(told["cases"]) == 3


def test_actions_that_repeat_or_go_back_are_counted() -> None:
    robot = NumberedRobot(20.0, seed=0)
    for number in (3, 4, 7, 7, 5, 8):
        robot.act(np.full(7, number, np.float32))
    assert robot.num_out_of_order == 2


class TestNumberedRobot(RobotContract):
    def make_robot(self) -> NumberedRobot:
        return NumberedRobot(20.0, seed=0)


def test_a_user_without_real_time_priority_is_told_and_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    set_policies: list[int] = []

    def set_scheduler(pid: int, policy: int, param: object) -> None:
        if policy == os.SCHED_FIFO:
            raise PermissionError
        set_policies.append(policy)

    monkeypatch.setattr(os, "sched_setscheduler", set_scheduler)
    before = os.sched_getscheduler(0)
    with pacing._scheduled("realtime") as priority:
        assert priority == "normal"
    assert set_policies == [before]
    assert "normal" in capsys.readouterr().err


def test_the_priority_ends_with_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    set_policies: list[int] = []
    monkeypatch.setattr(
        os, "sched_setscheduler", lambda pid, policy, param: set_policies.append(policy)
    )
    with pacing._scheduled("realtime") as priority:
        assert priority == "realtime"
        assert set_policies == [os.SCHED_FIFO]
    assert set_policies == [os.SCHED_FIFO, os.sched_getscheduler(0)]
