"""Measured latencies become a cost table, or are refused by what is wrong with them."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace

import pytest

from robot_sdk.errors import InvalidArgumentError
from sim.cli import fit_cost
from sim.fleet.brain import cost_table, fit, latencies
from sim.fleet.brain.cost_model import CostModel

NAME = "h800-tp4-qwen3.6-27b"
MEASURED = cost_table.TABLES / "measured" / f"{NAME}.json"
STUDY = latencies.read(MEASURED)


def run(*arguments):
    parser = argparse.ArgumentParser()
    fit_cost.add_arguments(parser)
    return fit_cost.run(parser.parse_args([str(argument) for argument in arguments]))


def test_the_table_that_comes_with_the_package_is_what_the_command_writes(tmp_path, capsys):
    out = tmp_path / "cost.json"
    assert run(MEASURED, "--out", out) == 0
    assert json.loads(out.read_text()) == cost_table.read(NAME)
    assert "chosen" in capsys.readouterr().out


def test_a_table_for_other_steps_than_the_measured_one_s_fits_as_well(tmp_path):
    name = f"{NAME}-steps-16384"
    out = tmp_path / "cost.json"
    options = ("--step-tokens", 16_384, "--batched-decode-share", 0.85, "--name", name)
    assert run(MEASURED, "--out", out, *options) == 0
    assert json.loads(out.read_text()) == cost_table.read(name)
    assert abs(cost_table.read(name)["worst_residual"]) < 0.06


def test_steps_smaller_than_a_block_are_refused(tmp_path, capsys):
    assert run(MEASURED, "--out", tmp_path / "c.json", "--step-tokens", 100) == 2
    assert "step_tokens" in capsys.readouterr().err


def test_the_study_s_table_is_met_within_seven_percent_and_evicted_turns_within_one():
    for row in cost_table.read(NAME)["residuals"]:
        limit = 0.01 if "evicted" in row["column"] else 0.07
        assert abs(row["residual"]) <= limit, row


def test_constants_that_made_a_table_are_found_again():
    truth = CostModel(0.006, 1.5e-5, 4e-11, 7e-9, 0.6, 0.05, 2e-7)
    columns = {name: tuple(values) for name, values in fit.predict(truth, STUDY).items()}
    found = fit.fit(replace(STUDY, **columns), batched_decode_share=0.6)
    for name, value in vars(truth).items():
        assert getattr(found, name) == pytest.approx(value, rel=1e-6), name


def test_pieces_of_a_prompt_end_on_blocks_and_the_tail_has_its_own():
    pieces = fit.prefill_pieces(0, 40_000, block_tokens=784, step_tokens=16_384)
    assert [(piece.start, piece.end) for piece in pieces] == [
        (0, 15_680),
        (15_680, 31_360),
        (31_360, 39_984),
        (39_984, 40_000),
    ]
    assert len(fit.prefill_pieces(39_984, 43_300, 784, 16_384)) == 2


def changed(**fields):
    return {**STUDY.to_json(), **fields}


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (changed(ttft_evicted_s=None), "ttft_evicted_s"),
        (changed(ttft_evicted_s=[1.3, 2.8, 5.3]), "ttft_evicted_s.*hole|hole.*ttft_evicted_s"),
        (changed(ttft_retained_s=[0.18, None, 0.27, 0.35]), r"ttft_retained_s\[1\]"),
        (changed(call_evicted_s=[2.6, -4.2, 6.7, 11.8]), r"call_evicted_s\[1\]"),
        (changed(ttft_evicted_s=[1.3, 0.8, 5.3, 10.0]), r"ttft_evicted_s\[1\]"),
        (changed(call_retained_s=[0.1, 0.2, 0.3, 0.4]), r"call_retained_s\[0\]"),
        (changed(context_tokens=[40_000, 30_000, 130_000, 215_000]), r"context_tokens\[1\]"),
        (changed(context_tokens=[40_000, 78_000]), "too few"),
        (changed(block_tokens=0), "block_tokens"),
        (changed(block_tokens=1, step_tokens=1), r"context_tokens\[3\].*steps"),
        (changed(ttft_evicted_s=[10**400, 2.8, 5.3, 10.0]), r"ttft_evicted_s\[0\]"),
        (changed(ttft_evicted_s=[float("nan"), 2.8, 5.3, 10.0]), r"ttft_evicted_s\[0\].*nan"),
        (changed(ttft_evicted_s=["1.3", 2.8, 5.3, 10.0]), r"ttft_evicted_s\[0\].*'1.3'"),
        (changed(ttft_evicted_s=[1e-300, 2.8, 5.3, 10.0]), r"ttft_evicted_s\[0\]"),
        (changed(name=5), "name"),
        (changed(source="a\nb"), "source"),
        (changed(step_tokens=100), "step_tokens"),
        (changed(gpu_hours=3), "gpu_hours"),
        (changed(context_tokens="all"), "context_tokens"),
        ({"format": "robot-latency-table/1"}, "robot-brain-latency/1"),
        ([1, 2], "robot-brain-latency/1"),
    ],
)
def test_a_table_that_cannot_be_is_refused_by_the_place(content, named):
    with pytest.raises(InvalidArgumentError, match=f"(?s){named}"):
        latencies.from_json(content)


def test_a_table_that_contradicts_the_model_is_refused_with_the_constants(tmp_path, capsys):
    table = tmp_path / "measured.json"
    # A turn with everything cached that takes as long as one without.
    table.write_text(
        json.dumps(
            changed(ttft_retained_s=[5.0, 5.0, 5.0, 5.0], call_retained_s=[6.0, 6.0, 6.0, 6.0])
        )
    )
    assert run(table, "--out", tmp_path / "cost.json") == 2
    assert "no constants of at least 0 fit" in capsys.readouterr().err
    assert not (tmp_path / "cost.json").exists()


@pytest.mark.parametrize("share", ["-0.1", "1.5", "nan"])
def test_a_share_out_of_range_is_refused(share, tmp_path, capsys):
    assert run(MEASURED, "--out", tmp_path / "c.json", f"--batched-decode-share={share}") == 2
    assert "--batched-decode-share" in capsys.readouterr().err


def with_constants(tmp_path, **changes):
    content = cost_table.read(NAME)
    constants = {**content["constants"], **changes}
    path = tmp_path / "cost.json"
    kept = {name: value for name, value in constants.items() if value != "absent"}
    path.write_text(json.dumps({**content, "constants": kept}))
    return path


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"prefill_token_s": "absent"}, "holes.*prefill_token_s"),
        ({"step_s": None}, "holes.*step_s"),
        ({"step_s": -1.0}, "step_s"),
        ({"step_s": 10**400}, "step_s"),
        ({"step_s": float("inf")}, "step_s"),
        ({"step_s": "0.01"}, "step_s.*'0.01'"),
        ({"step_s": 1e-300}, "step_s.*stand still"),
        ({"warp_s": 1.0}, "warp_s"),
    ],
)
def test_a_cost_table_with_holes_or_values_out_of_range_is_refused_by_name(
    changes, named, tmp_path
):
    with pytest.raises(InvalidArgumentError, match=f"(?s){named}"):
        cost_table.load(with_constants(tmp_path, **changes))


def test_a_table_by_an_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(InvalidArgumentError, match=NAME):
        cost_table.load("tpu-v9")


def test_measured_latencies_handed_in_as_a_cost_table_are_refused_with_the_command():
    with pytest.raises(InvalidArgumentError, match="fit-cost"):
        cost_table.load(MEASURED)


@pytest.mark.parametrize("text", ["9" * 5000, "[" * 100_000, "", "\ufeff{}"], ids=len)
def test_what_no_json_reader_takes_is_refused_in_one_line(text, tmp_path, capsys):
    path = tmp_path / "table.json"
    path.write_text(text)
    with pytest.raises(InvalidArgumentError, match="JSON"):
        cost_table.load(path)
    assert run(path, "--out", tmp_path / "cost.json") == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_what_was_measured_is_not_overwritten_by_what_was_fitted(tmp_path, capsys):
    table = tmp_path / "measured.json"
    table.write_text(MEASURED.read_text())
    assert run(table, "--out", table) == 2
    assert "what was measured would be lost" in capsys.readouterr().err
    assert table.read_text() == MEASURED.read_text()


def test_a_truncated_file_is_refused(tmp_path):
    path = tmp_path / "cost.json"
    path.write_text('{"format": "robot-brain-cost/1", "const')
    with pytest.raises(InvalidArgumentError, match="JSON"):
        cost_table.load(path)
