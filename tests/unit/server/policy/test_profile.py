from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from robot_sdk.clock import VirtualClock
from robot_sdk.errors import BadModelOutputError, InvalidArgumentError
from robot_sdk.spec import PolicySpec
from server.core.batching.latency_table import LatencyTable
from server.policy import profile as module
from server.policy.flow_adapter import FlowAdapter
from server.policy.interface import PolicyInput, PolicyOutput
from server.policy.profile import main, make_observation, profile, render
from tests.fakes.policies import StepPolicy, spec


class Timed:
    """Takes 10 ms and 2 ms per observation of a virtual clock; the first runs take longer."""

    device = "a toaster"
    dtype = "float8"
    num_flow_steps = 5

    def __init__(
        self,
        clock: VirtualClock,
        num_slow_runs: int = 0,
        most: int = 1000,
        failure: Exception | None = None,
    ) -> None:
        self._clock = clock
        self._num_slow_runs = num_slow_runs
        self._most = most
        self._failure = failure
        self.batches: list[int] = []

    @property
    def spec(self) -> PolicySpec:
        return spec(image_px=8)

    def infer(self, batch: Sequence[PolicyInput]) -> Sequence[PolicyOutput | BadModelOutputError]:
        self.batches.append(len(batch))
        if len(batch) > self._most:
            if self._failure is not None:
                raise self._failure
            return [BadModelOutputError("out of memory")] * len(batch)
        is_slow = len(self.batches) <= self._num_slow_runs
        self._clock.advance(0.010 + 0.002 * len(batch) + (5.0 if is_slow else 0.0))
        actions = np.zeros((10, 7), np.float32)
        return [PolicyOutput(actions, 0.001, 0.002, 0.005) for _ in batch]


def test_a_row_per_batch_size_with_parts_and_one_step() -> None:
    clock = VirtualClock()
    policy = Timed(clock)

    table = profile(policy, "mine", batches=(1, 4), num_warmups=2, num_runs=3, clock=clock)

    assert policy.batches == [1] * 5 + [4] * 5
    assert (table.policy, table.device, table.dtype) == ("mine", "a toaster", "float8")
    assert [row.batch for row in table.rows] == [1, 4]
    assert table.rows[1].p50_s == pytest.approx(0.018)
    assert table.rows[1].p99_s == pytest.approx(0.018)
    assert table.rows[1].vision_s == 0.001
    assert table.rows[1].prefill_s == 0.002
    assert table.rows[1].denoise_step_s == pytest.approx(0.001)
    assert table.rows[1].memory_bytes


def test_warm_ups_do_not_count() -> None:
    clock = VirtualClock()

    table = profile(
        Timed(clock, num_slow_runs=2), "mine", batches=(1,), num_warmups=2, num_runs=3, clock=clock
    )

    assert table.rows[0].p99_s == pytest.approx(0.012)


def test_a_modelled_delay_is_part_of_the_latency_and_labelled() -> None:
    clock = VirtualClock()

    table = profile(
        Timed(clock), "mine", batches=(1,), num_runs=1, added_latency_s=0.1, clock=clock
    )

    assert table.rows[0].p50_s == pytest.approx(0.112)
    assert "0.1 s of it added" in table.measured_on


@pytest.mark.parametrize("failure", [None, MemoryError("out of memory")])
def test_the_table_ends_where_the_policy_fails(failure: Exception | None) -> None:
    clock = VirtualClock()
    policy = Timed(clock, most=4, failure=failure)
    shown: list[str] = []

    table = profile(policy, "mine", batches=(1, 4, 8), num_runs=1, clock=clock, show=shown.append)

    assert [row.batch for row in table.rows] == [1, 4]
    assert "batch 8: out of memory; the table ends at batch 4" in shown[-1]


def test_a_policy_that_fails_at_once_is_an_error() -> None:
    clock = VirtualClock()

    with pytest.raises(BadModelOutputError, match="out of memory"):
        profile(Timed(clock, most=0), "mine", batches=(1,), num_runs=1, clock=clock)


def test_a_fault_in_the_policys_code_is_not_taken_for_a_lack_of_memory() -> None:
    clock = VirtualClock()
    policy = Timed(clock, most=1, failure=ZeroDivisionError())

    with pytest.raises(ZeroDivisionError):
        profile(policy, "mine", batches=(1, 2), num_runs=1, clock=clock)


def test_what_is_not_measured_is_absent_and_not_zero() -> None:
    table = profile(StepPolicy(), "step", batches=(1,), num_warmups=0, num_runs=2)

    row = table.rows[0]
    assert (row.vision_s, row.prefill_s, row.denoise_s, row.denoise_step_s) == (None,) * 4
    assert "      -" in render(table)


def test_made_up_observations_fit_the_spec_and_differ() -> None:
    wanted = spec(image_px=8)

    first, second = make_observation(wanted, 0), make_observation(wanted, 1)

    assert first.images["images/wrist"].shape == (8, 8, 3)
    assert first.tensors["observation/state"].shape == (8,)
    assert (first.images["images/wrist"] != second.images["images/wrist"]).any()


def test_the_flow_policy_takes_them() -> None:
    table = profile(FlowAdapter(), "flow", batches=(1, 2), num_warmups=0, num_runs=1)

    assert [row.batch for row in table.rows] == [1, 2]


def test_the_command_writes_the_table_that_the_batcher_reads(tmp_path: Path) -> None:
    file = tmp_path / "not yet there" / "table.json"
    sizes = ["--batches", "4,1,2", "--warmups", "0", "--runs", "2"]

    result = subprocess.run(
        [sys.executable, "-m", "server", "profile-policy", *sizes, "--json", str(file)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert result.returncode == 0, result.stderr
    table = LatencyTable.from_json(json.loads(file.read_text()))
    assert table.policy == "flow-libero"
    assert [row.batch for row in table.rows] == [1, 2, 4]
    assert table.num_runs == 2
    assert "flow-libero" in result.stdout
    assert "batch 4" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--policy", "nothing"], "allowed: flow-libero"),
        (["--set", "policies.a.kind=flow", "--set", "policies.b.kind=flow"], "name one of"),
        (["--set", "policies.flow-libero.kind=none"], "policies.flow-libero.kind"),
        (["--set", 'policies.flow-libero.options={checkpoint = "absent"}'], "cannot read"),
        (["--set", "policies.flow-libero.kind=pi05"], r"recipe"),
    ],
)
def test_a_wrong_configuration_is_named(arguments: list[str], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        main([*arguments, "--runs", "1"])


@pytest.mark.parametrize("arguments", [["--batches", "0"], ["--batches", "x"], ["--runs", "0"]])
def test_a_wrong_number_is_a_usage_error(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(arguments)
    assert "is not a whole number" in capsys.readouterr().err


def test_the_gpu_of_the_first_worker_is_the_one_that_is_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    seen: list[str] = []

    def fake_build(path: str, options: object) -> StepPolicy:
        seen.append(module.os.environ["CUDA_VISIBLE_DEVICES"])
        return StepPolicy()

    monkeypatch.setattr(module, "build", fake_build)

    main(["--set", 'policies.flow-libero.devices=["3", "4"]', "--runs", "1", "--batches", "1"])

    assert seen == ["3"]
