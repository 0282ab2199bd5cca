from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from sim.cli import replay
from sim.cli.replay_options import policy_settings, settings_of
from sim.cli.replay_output import title_of
from sim.fleet.replay import runner
from sim.fleet.replay.settings import FleetPoint
from sim.fleet.workload.trace import EpisodeTrace, TurnTrace
from sim.fleet.workload.trace_file import write_traces


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


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--seeds", "9" * 5000), "no such index"),
        (("--policy", "static-cap", "--set", "cap=" + "[" * 100_000), "cap"),
        (("--policy", "static-cap", "--set", "cap=1", "--set", "cap=2"), "given twice"),
        (("--control-hz", "30"), "--control-hz: has no effect without --action-gpus"),
        (("--whole-gap",), "--whole-gap: has no effect without --action-gpus"),
        (("--block-megabytes", "5"), "--block-megabytes: has no effect without --host-blocks"),
        (("--study-folder", "x"), "--study-folder: has no effect without --engine study"),
        (("--engine", "study", "--retention-tokens", "784"), "keeps every state snapshot"),
        (("--minutes", "1e300"), "set by --minutes"),
        (("--processes", "1000000"), "1 to 256"),
        (("--mix", "a" * 300), "no such mix"),
        (("--cost", "a" * 300), "no such cost table"),
        (("--json", "a" * 300), "File name too long"),
        (("--store", "a" * 300), "File name too long"),
        (("--pool-blocks", "10"), "does not fit into the engine's pool"),
        (("--json", "."), "--json"),
        (("--picture", "."), "--picture"),
        (("--store", "."), "--store"),
        (("--json", "-"), "--json"),
        (("--picture", "-"), "standard output"),
        (("--json", "r", "--store", "r"), "--store: the same file as --json"),
        (("--mix", "mix.jsonl", "--json", "mix.jsonl"), "--json: the same file as --mix"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_what_cannot_be_meant_is_refused_in_one_line_and_nothing_is_written(
    words: tuple[str, ...],
    told: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    write_traces(Path("mix.jsonl"), [EpisodeTrace("a", "f", (TurnTrace(10, 2),))])
    before = Path("mix.jsonl").read_text()
    assert replay.run(arguments("--robots", "2", *words)) == 2
    error = capsys.readouterr().err
    assert told in error
    assert len(error.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["mix.jsonl"]
    assert Path("mix.jsonl").read_text() == before


def test_a_result_that_cannot_be_written_in_the_end_is_told_and_the_rest_is_shown(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ("--robots", "3", "--seeds", "1", "--json", "/dev/full")
    picture = tmp_path / "picture.of-any-name"
    assert replay.run(arguments(*words, "--picture", str(picture))) == 1
    told = capsys.readouterr()
    assert "error: --json: cannot write /dev/full" in told.err
    assert "requests/s" in told.out
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_stopped_keeps_what_it_has_and_leaves_no_process(
    stop: signal.Signals, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "result.json"
    show = replay.ProgressLine.show
    workers: list[int] = []

    def tell(self: replay.ProgressLine, text: str, elapsed_s: float) -> None:
        show(self, text, elapsed_s)
        if "left" in text and not workers:  # the run is on
            workers.extend(_children())
            os.kill(os.getpid(), stop)

    words = ("--robots", "3", "--seeds", "99", "--processes", "1", "--json", str(file))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(replay.ProgressLine, "show", tell)
            assert replay.run(arguments(*words)) == 130
    finally:
        signal.signal(signal.SIGINT, before)
    assert "interrupted" in capsys.readouterr().err
    assert json.loads(file.read_text())["results"][0]["is_partial"] is True
    assert workers
    assert not set(workers) & set(_children())


def _children() -> list[int]:
    tasks = Path("/proc/self/task")
    return [int(pid) for task in tasks.iterdir() for pid in (task / "children").read_text().split()]


def test_the_table_has_a_line_for_each_seed_and_their_mean(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "deep" / "result.json"
    monkeypatch.setattr(sys, "argv", ["sim/__main__.py", "replay", "--mix", "my traces.jsonl"])
    words = ("--robots", "3", "--seeds", "1-3", "--processes", "2", "--json", str(file))
    assert replay.run(arguments(*words)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines if line[:1] in "123"] == ["1.000", "2.000", "3.000"]
    mean = next(line for line in lines if line.startswith("mean"))
    assert mean.split()[1] == "2.000"
    # The fake's runs take one second.
    assert lines[0] == "vLLM installed, 0.02 virtual minutes, robots' view"
    content = json.loads(file.read_text())
    assert content["command"] == "python -m sim replay --mix 'my traces.jsonl'"
    assert content["summary"]["requests/s"]["mean"] == 2.0
    assert content["seeds"] == [1, 2, 3]
    assert content["partial"] is False
    assert [result["seed"] for result in content["results"]] == [1, 2, 3]


def test_a_picture_is_titled_with_all_that_is_not_as_usual() -> None:
    words = ("--fleet", "0:10,600:20", "--mix", "data/mine.jsonl", "--pool-blocks", "2000")
    settings = settings_of(arguments(*words))
    title = title_of(settings, "static-cap (cap=16)", "vLLM 0.32.0", 2000)
    assert title == (
        "10, 20 robots, static-cap (cap=16), vLLM 0.32.0, mix mine.jsonl, pool 2000 blocks"
    )
    usual = settings_of(arguments("--robots", "3"))
    title = title_of(usual, "unlimited", "vLLM 0.32.0", usual.engine.pool_blocks)
    assert title == "3 robots, unlimited, vLLM 0.32.0"


def test_the_picture_names_the_policy_with_what_was_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[tuple[list[str], str]] = []
    monkeypatch.setattr(
        "sim.paper.windows_plot.draw_windows",
        lambda groups, _path, _panels, title: drawn.append((list(groups), title)),
    )
    words = ("--robots", "3", "--policy", "static-cap", "--set", "cap=2", "--set", "refresh=true")
    for seeds in ("1", "1-2"):
        picture = ("--picture", str(tmp_path / "p.png"))
        assert replay.run(arguments(*words, "--seeds", seeds, *picture)) == 0
    assert [names for names, _ in drawn] == [["seed 1"], ["seeds 1-2"]]
    assert drawn[0][1] == "3 robots, static-cap (cap=2, refresh=true), vLLM installed"


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
