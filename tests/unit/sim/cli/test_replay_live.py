"""What `python -m sim replay --live` refuses before it connects to anything."""

from __future__ import annotations

import argparse

import pytest

from sim.cli import replay

HERE = ("--live", "127.0.0.1:9", "--robots", "3")


def run(*words: str) -> int:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    replay.add_arguments(parser)
    return replay.run(parser.parse_args(words))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--live", "10.1.2.3:50051", "--robots", "3"), "--allow-remote"),
        (("--live", "gpu-box:50051", "--robots", "3"), "--allow-remote"),
        (("--live", "nowhere", "--robots", "3"), "host:port"),
        (("--live", "127.0.0.1:9"), "how many robots"),
        ((*HERE, "--robots", "1000"), "256"),
        ((*HERE, "--minutes", "10000"), "duration_s"),
        ((*HERE, "--token-scale", "0"), "token_scale"),
        ((*HERE, "--time-scale", "nan"), "time_scale"),
        ((*HERE, "--turn-timeout-s", "-1"), "turn_timeout_s"),
        ((*HERE, "--policy", "static-cap", "--set", "cap=3"), "server has its own"),
        ((*HERE, "--pool-blocks", "100"), "server has its own"),
        ((*HERE, "--engine", "study"), "server has its own"),
        ((*HERE, "--round-trip-ms", "20"), "server has its own"),
        ((*HERE, "--store", "runs.jsonl"), "--store"),
        ((*HERE, "--seeds", "many"), "seeds"),
        ((*HERE, "--mix", "not-there.jsonl", "--scaled-traces", "t.jsonl"), "not-there.jsonl"),
        ((*HERE, "--seeds", "0-3", "--scaled-traces", "t.jsonl"), "one seed"),
        ((*HERE, "--token-file", "not-there"), "--token-file"),
    ],
    ids=str,
)
def test_bad_input_is_an_error_with_status_2_that_says_what_is_allowed(
    words: tuple[str, ...],
    told: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(str(tmp_path))
    assert run(*words) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert told in error


@pytest.mark.parametrize(
    "words",
    [
        ("--token-scale", "0.1"),
        ("--time-scale", "0.1"),
        ("--turn-timeout-s", "3"),
        ("--allow-remote",),
        ("--scaled-traces", "file"),
    ],
    ids=str,
)
def test_options_of_a_live_replay_are_refused_without_an_address(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--robots", "3", *words) == 2
    error = capsys.readouterr().err
    assert words[0] in error
    assert "--live HOST:PORT" in error
