"""`python -m server cliff`: the whole command, and arguments it cannot work with."""

from __future__ import annotations

import json

import pytest

from robot_sdk.errors import RobotSdkError
from server.__main__ import main
from server.capacity.cliff.protocol import Cell
from server.capacity.cliff.sweep import Sweep, run_sweeps


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--engine", "gpu"),
        ("--engine", "study", "--sessions", "0-4"),
        ("--engine", "study", "--sessions", "9-4"),
        ("--engine", "study", "--sessions", "1-100000"),
        ("--engine", "study", "--sessions", "many"),
        ("--engine", "study", "--rounds", "0"),
        ("--engine", "study", "--pool-blocks", "1"),
        ("--engine", "study", "--pool-blocks", "1000000000"),
        ("--engine", "study", "--quick"),
        ("--engine", "study", "--out", "/proc/none"),
        ("--engine", "study", "--out", __file__),
        ("--engine", "tiny", "--out", "/proc/none"),
        ("--engine", "tiny", "--sessions", "2-3"),
        ("--engine", "tiny", "--pool-blocks", "100"),
        ("--engine", "tiny", "--rounds", "3"),
        ("--engine", "tiny", "--study-engine", "nowhere"),
    ],
)
def test_arguments_that_cannot_be_are_refused(capsys, arguments):
    try:
        code = main(["cliff", *arguments])
    except SystemExit as usage:  # argparse
        code = usage.code
    assert code == 2
    error = capsys.readouterr().err
    assert "error:" in error.splitlines()[-1]
    assert "starting" not in error
    assert "runs" not in error


def test_a_folder_without_the_study_s_vllm_ends_the_command_with_the_reason(tmp_path, capfd):
    code = main(["cliff", "--engine", "study", "--sessions", "1", "--study-engine", str(tmp_path)])
    assert code == 2
    assert "fetch_study_engine.sh" in capfd.readouterr().err


@pytest.mark.vllm
@pytest.mark.timeout(400)
def test_the_study_s_cliff_is_printed_drawn_and_written(tmp_path, capfd):
    pytest.importorskip("vllm")
    pytest.importorskip("matplotlib")
    code = main(
        [
            *("cliff", "--engine", "study", "--sessions", "28-29", "--pool-blocks", "4270"),
            *("--rounds", "1", "--out", str(tmp_path)),
        ]
    )
    assert code == 0
    shown = capfd.readouterr()
    assert "4270 blocks, batch, N=28" in shown.out
    assert "fetch_study_engine.sh" in shown.out
    assert "of 20 runs" in shown.err
    content = json.loads((tmp_path / "cliff-study.json").read_text())
    (default,) = [row for row in content["rows"] if "latest snapshot" in row["variant"]]
    assert (default["row"], default["ours"]) == ("4270_batch_warm_N28", 1.0)
    assert (tmp_path / "cliff-study.png").read_bytes().startswith(b"\x89PNG")


def test_a_worker_that_fails_ends_the_others_and_is_named(tmp_path):
    (tmp_path / "vllm" / "vllm").mkdir(parents=True)
    (tmp_path / "vllm" / "vllm" / "__init__.py").touch()  # no distribution of that name
    (tmp_path / "dependencies").mkdir()
    too_many = Cell(pool_blocks=10**6, num_sessions=200, warm_up="batch", num_rounds=20)
    sweeps = [Sweep([too_many] * 50), Sweep([Cell(100, 0, "batch")], tmp_path)]
    with pytest.raises(RobotSdkError, match="engine without a model"):
        run_sweeps(sweeps, lambda done, total: None)
    assert len(sweeps[0].outcomes) < 50


@pytest.mark.vllm
@pytest.mark.timeout(400)
def test_a_real_engine_keeps_every_prefix_below_its_pool_none_above_and_all_with_the_cap(
    tmp_path, capfd
):
    pytest.importorskip("vllm")
    pytest.importorskip("matplotlib")
    code = main(["cliff", "--engine", "tiny", "--quick", "--out", str(tmp_path)])
    assert code == 0, capfd.readouterr().err
    content = json.loads((tmp_path / "cliff-tiny.json").read_text())
    survival = {row["row"]: row["ours"] for row in content["rows"]}
    assert survival == {"N8": 1.0, "N14": 0.0, "N14_K8": 1.0}
    capped = content["phases"][-1]
    assert (capped["num_inside"], capped["num_waiting"]) == (8, 6)
    assert (tmp_path / "cliff-tiny.png").read_bytes().startswith(b"\x89PNG")
