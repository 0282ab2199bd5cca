from __future__ import annotations

import json
from pathlib import Path

import pytest

from sim import __main__ as program
from sim.fleet.workload.trace import EpisodeTrace, TurnTrace
from sim.fleet.workload.trace_file import read_traces, write_traces


def _run(*words: object) -> int:
    return program.main(["workload", *map(str, words)])


def _calls(folder: Path, *prompts: int) -> Path:
    path = folder / "calls.jsonl"
    calls = [
        {"session": "s", "prompt_tokens": prompt, "output_tokens": 10, "gap_s": 2.5}
        for prompt in prompts
    ]
    path.write_text("".join(json.dumps(call) + "\n" for call in calls))
    return path


def test_what_is_generated_can_be_checked_and_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "g.jsonl"
    assert _run("generate", "--seed", 1, "--out", path) == 0
    assert "80 episodes, 1862 turns" in capsys.readouterr().out
    assert _run("check", path) == 0
    assert "67 figures; 0 further off than 3%" in capsys.readouterr().out
    assert _run("show", path) == 0
    shown = capsys.readouterr().out
    assert "38.6% of the intervals move nothing" in shown
    assert "libero_10_swap: 20 episodes, median 33.5 turns" in shown


def test_traces_that_are_not_the_studys_do_not_pass_the_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t.jsonl"
    write_traces(path, [EpisodeTrace("a", "f", (TurnTrace(10, 2),))])
    assert _run("check", path) == 1
    printed = capsys.readouterr().out
    assert "that the traces do not give" in printed
    assert "brain_calls " in printed


def test_an_import_says_what_it_assumed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "t.jsonl"
    calls = _calls(tmp_path, 1000, 1200, 400)
    assert _run("import", calls, "--out", out, "--family", "coding", "--compaction-keeps", 150) == 0
    assert "1 prompts keep less" in capsys.readouterr().out
    (trace,) = read_traces(out)
    assert trace.task_family == "coding"
    assert [turn.kept_tokens for turn in trace.turns] == [None, None, 150]


def test_a_trace_file_is_shown_as_json_and_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    out = tmp_path / "t.jsonl"
    assert _run("import", _calls(tmp_path, 1000, 1200), "--out", out) == 0
    capsys.readouterr()
    assert _run("show", out, "--json", "--png", tmp_path / "t.png") == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["episodes"], shown["turns"]) == (1, 2)
    assert shown["env_gap_s"]["p50"] == 2.5
    assert shown["brain_latency_s"]["p50"] is None
    assert (tmp_path / "t.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "words",
    [
        ("show", "none.jsonl"),
        ("check", "none.jsonl"),
        ("import", "none.jsonl", "--out", "out.jsonl"),
        ("record", "none", "--out", "out.jsonl"),
        ("generate", "--out", "/proc/none/out.jsonl"),
    ],
)
def test_a_file_that_is_not_there_is_named_without_a_traceback(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert _run(*words) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert "none" in error
    assert len(error.splitlines()) == 1


def test_the_folder_of_a_trace_file_is_made(tmp_path: Path) -> None:
    path = tmp_path / "new" / "t.jsonl"
    assert _run("generate", "--out", path) == 0
    assert len(read_traces(path)) == 80


@pytest.mark.parametrize("out", ["", ".", "..", "/"])
def test_a_folder_in_the_place_of_a_trace_file_is_refused_and_nothing_is_left_beside_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    out: str,
) -> None:
    folder = tmp_path / "inner"
    folder.mkdir()
    monkeypatch.chdir(folder)
    assert _run("generate", "--out", out) == 2
    assert capsys.readouterr().err.startswith("error: --out: ")
    assert list(tmp_path.rglob("*")) == [folder]


def test_calls_are_not_overwritten_by_their_traces(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = _calls(tmp_path, 1000, 1200)
    before = calls.read_text()
    link = tmp_path / "link.jsonl"
    link.symlink_to(calls)
    for out in (calls, link):
        assert _run("import", calls, "--out", out) == 2
        assert "the calls would be lost" in capsys.readouterr().err
    assert calls.read_text() == before


def test_a_family_that_cannot_be_is_the_options_fault_not_the_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        _run("import", _calls(tmp_path, 1000), "--out", tmp_path / "t", "--family", "a\nb")
    assert ended.value.code == 2
    assert "--family" in capsys.readouterr().err


def test_a_broken_file_is_refused_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = _calls(tmp_path, 1000, -5)
    assert _run("import", calls, "--out", tmp_path / "t.jsonl") == 2
    assert f"{calls}:2: prompt_tokens" in capsys.readouterr().err
    assert not (tmp_path / "t.jsonl").exists()


@pytest.mark.parametrize("seed", ["-1", "x", "99999999999"])
def test_a_seed_that_is_none_is_refused(seed: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        _run("check", "--seed", seed)
    assert ended.value.code == 2
    assert "is not a whole number from 0" in capsys.readouterr().err
