from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from sim.cli import replay
from sim.cli.replay_options import policy_settings, settings_of
from sim.fleet.replay import runner
from sim.fleet.replay.settings import FleetPoint


def arguments(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    replay.add_arguments(parser)
    return parser.parse_args(words)


@pytest.fixture(autouse=True)
def fake_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "WORKER_MODULE", "tests.fakes.replay_worker")
    monkeypatch.setattr(runner.vllm_library, "installed_version", lambda: "0.32.0")


def test_options_become_settings() -> None:
    settings = settings_of(
        arguments(
            *("--robots", "48", "--policy", "static-cap", "--set", "cap=20", "--minutes", "20"),
            *("--order", "suite", "--engine", "study", "--retention-tokens", "none"),
            *("--round-trip-ms", "40", "--told-pool-share", "1.3"),
        )
    )
    assert settings.fleet == (FleetPoint(0.0, 48),)
    assert settings.admission.policy == "static-cap"
    assert settings.admission.settings == {"cap": 20}
    assert settings.admission.told_pool_share == 1.3
    assert settings.duration_s == 1200.0
    assert settings.workload.order == "suite"
    assert settings.engine.version == "study"
    assert settings.engine.retention_tokens is None
    assert settings.round_trip_s == pytest.approx(0.04)


def test_a_fleet_over_time_is_read_point_by_point() -> None:
    settings = settings_of(arguments("--fleet", "0:10,600:20,1200:5"))
    assert [p.num_robots for p in settings.fleet] == [10, 20, 5]


def test_a_policys_settings_are_numbers_words_or_truth_values() -> None:
    given = policy_settings(["cap=16", "share=0.5", "name=fast", "on=true"])
    assert given == {"cap": 16, "share": 0.5, "name": "fast", "on": True}


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--robots", "3", "--fleet", "0:3"),
        ("--fleet", "nonsense"),
        ("--robots", "0"),
        ("--robots", "3", "--seeds", "5-1"),
        ("--robots", "3", "--policy", "magic"),
        ("--robots", "3", "--set", "cap"),
        ("--robots", "3", "--minutes", "nan"),
        ("--robots", "3", "--processes", "0"),
        ("--robots", "3", "--mix", "no-such-file.jsonl"),
    ],
)
def test_what_cannot_be_run_is_an_error_with_status_2(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert replay.run(arguments(*words)) == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_the_table_has_a_line_for_each_seed_and_their_mean(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "deep" / "result.json"
    words = ("--robots", "3", "--seeds", "1-3", "--processes", "2", "--json", str(file))
    assert replay.run(arguments(*words)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines if line[:1] in "123"] == ["1.000", "2.000", "3.000"]
    mean = next(line for line in lines if line.startswith("mean"))
    assert mean.split()[1] == "2.000"
    content = json.loads(file.read_text())
    assert content["seeds"] == [1, 2, 3]
    assert content["partial"] is False
    assert [result["seed"] for result in content["results"]] == [1, 2, 3]


def test_a_run_that_fails_is_told_and_what_was_run_is_shown(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "result.json"
    words = ("--robots", "3", "--seeds", "1,13", "--processes", "1", "--json", str(file))
    assert replay.run(arguments(*words)) == 1
    assert "bad luck" in capsys.readouterr().err
    assert json.loads(file.read_text())["partial"] is True


def test_an_interrupted_run_leaves_what_it_has_marked_as_partial(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_self: object, text: str, _elapsed_s: float) -> None:
        if "left" in text:  # the run is on
            raise KeyboardInterrupt

    monkeypatch.setattr(replay.ProgressLine, "show", interrupt)
    file = tmp_path / "result.json"
    words = ("--robots", "3", "--seeds", "99", "--processes", "1", "--json", str(file))
    assert replay.run(arguments(*words)) == 130
    told = capsys.readouterr()
    assert "*" in next(line for line in told.out.splitlines() if line.startswith("99"))
    content = json.loads(file.read_text())
    assert content["partial"] is True
    assert content["results"][0]["is_partial"] is True
