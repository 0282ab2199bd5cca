from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from robot_sdk.errors import InvalidArgumentError
from sim.fleet.replay.checks import check_settings, check_traces, engine_settings
from sim.fleet.replay.settings import (
    ActionChoice,
    AdmissionChoice,
    EngineChoice,
    FleetPoint,
    ReplaySettings,
    WorkloadChoice,
)
from tests.unit.sim.fleet.replay.conftest import trace

GOOD = ReplaySettings.sustained(8)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"fleet": ()}, "fleet"),
        ({"fleet": (FleetPoint(0.0, 0),)}, "robots"),
        ({"fleet": (FleetPoint(0.0, -1),)}, "robots"),
        ({"fleet": (FleetPoint(0.0, 0), FleetPoint(60.0, 5)), "duration_s": 60.0}, "robots"),
        ({"engine": EngineChoice(block_tokens=16, step_tokens=100)}, "step tokens"),
        ({"fleet": (FleetPoint(0.0, 1001),)}, "robots"),
        ({"fleet": (FleetPoint(5.0, 8),)}, "fleet"),
        ({"fleet": (FleetPoint(0.0, 8), FleetPoint(0.0, 9))}, "fleet"),
        ({"fleet": (FleetPoint(0.0, 8), FleetPoint(float("nan"), 9))}, "fleet"),
        ({"duration_s": 0.0}, "duration_s"),
        ({"duration_s": float("nan")}, "duration_s"),
        ({"duration_s": float("inf")}, "duration_s"),
        ({"warm_up_s": -1.0}, "warm_up_s"),
        ({"round_trip_s": -0.1}, "round_trip_s"),
        ({"episodes_per_robot": 0}, "episodes_per_robot"),
        ({"admission": AdmissionChoice("static-cap", {"cap": 0})}, "cap"),
        ({"admission": AdmissionChoice("static-cap", {"cap": None})}, "cap"),
        ({"admission": AdmissionChoice("static-cap")}, "cap"),
        ({"admission": AdmissionChoice("static-cap", {"cap": 3, "refresh": 1})}, "refresh"),
        ({"admission": AdmissionChoice("unlimited", {"cap": 3})}, "settings"),
        ({"admission": AdmissionChoice("aimd", {"usage_high": "abc"})}, "usage_high"),
        ({"admission": AdmissionChoice("aimd", {"interval_s": 0})}, "interval_s"),
        ({"admission": AdmissionChoice("aimd", {"initial_cap": None})}, "initial_cap"),
        ({"admission": AdmissionChoice("aimd", {"min_cap": 10**400})}, "min_cap"),
        ({"admission": AdmissionChoice("aimd", {"magic": 1})}, "settings"),
        ({"admission": AdmissionChoice("forecast-cap", {"newest": 0})}, "newest"),
        ({"admission": AdmissionChoice("forecast-cap", {"refill_share": "x"})}, "refill_share"),
        (
            {"admission": AdmissionChoice("forecast-cap", {"first_context_tokens": 0})},
            "first_context_tokens",
        ),
        ({"admission": AdmissionChoice("pause-resume", {"room_tokens": -1})}, "room_tokens"),
        ({"admission": AdmissionChoice("working-set", {"pool_share": 0})}, "pool_share"),
        ({"admission": AdmissionChoice("working-set", {"refresh": "abc"})}, "refresh"),
        ({"admission": AdmissionChoice("static-cap", {"cap": 2.5})}, "cap"),
        ({"admission": AdmissionChoice(told_pool_share=0.0)}, "told_pool_share"),
        ({"workload": WorkloadChoice(order="sorted")}, "order"),  # type: ignore[arg-type]
        ({"workload": WorkloadChoice(gap="none")}, "gap"),  # type: ignore[arg-type]
        ({"duration_s": 10**400}, "duration_s"),
        ({"engine": EngineChoice(pool_blocks=0)}, "pool blocks"),
        ({"engine": EngineChoice(pool_blocks=1_000_000_000)}, "pool blocks"),
        ({"engine": EngineChoice(step_tokens=100)}, "step tokens"),
        ({"engine": EngineChoice(retention_tokens=100)}, "retention tokens"),
        ({"action": ActionChoice(num_gpus=0)}, "action GPUs"),
        ({"action": ActionChoice(discipline="none")}, "discipline"),
        ({"action": ActionChoice(horizon=5, executed_steps=6)}, "executed_steps"),
        (
            {
                "action": ActionChoice(),
                "fleet": (FleetPoint(0.0, 8), FleetPoint(60.0, 4, cuts_off=True)),
            },
            "fleet",
        ),
    ],
)
def test_what_is_out_of_range_is_refused_by_name(change: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        check_settings(replace(GOOD, **change), seed=0)
    assert caught.value.field == named


@pytest.mark.parametrize("seed", [-1, 2**32, True])
def test_a_seed_out_of_range_is_refused(seed: int) -> None:
    with pytest.raises(InvalidArgumentError, match="seed"):
        check_settings(GOOD, seed)


def test_good_settings_pass() -> None:
    check_settings(GOOD, seed=2**32 - 1)


@pytest.mark.parametrize(
    "admission",
    [
        AdmissionChoice("static-cap", {"cap": 16, "refresh": True}),
        AdmissionChoice("aimd", {"cap": 30, "interval_s": 30, "initial_cap": 8}),
        AdmissionChoice("forecast-cap", {"newest": 0.2, "refill_share": 1, "overcommit": 1.5}),
        AdmissionChoice("working-set", {"pool_share": None, "slow_start_episodes": 3}),
    ],
    ids=lambda choice: choice.policy,
)
def test_settings_that_a_server_takes_pass(admission: AdmissionChoice) -> None:
    check_settings(replace(GOOD, admission=admission), seed=0)


def test_a_trace_longer_than_the_engines_context_is_refused_by_its_name() -> None:
    long = replace(trace(2, new_tokens=140_000), trace_id="the long one")
    with pytest.raises(InvalidArgumentError, match="turn 2 of the trace 'the long one'"):
        check_traces([trace(), long], engine_settings(EngineChoice()))


def test_a_trace_larger_than_the_pool_is_refused_by_its_name() -> None:
    small = EngineChoice(pool_blocks=10)
    with pytest.raises(InvalidArgumentError, match="pool"):
        check_traces([trace(2, new_tokens=10_000)], engine_settings(small))


def test_no_trace_at_all_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="no trace"):
        check_traces([], engine_settings(EngineChoice()))


def test_the_studys_engine_keeps_every_snapshot_whatever_the_settings_say() -> None:
    study = EngineChoice("study", retention_tokens=0)
    assert engine_settings(study).retention_tokens is None
    assert engine_settings(EngineChoice(retention_tokens=0)).retention_tokens == 0


def test_settings_come_back_from_json_as_they_were() -> None:
    settings = replace(GOOD, action=ActionChoice(2), admission=AdmissionChoice("aimd", {"cap": 3}))
    assert ReplaySettings.from_json(settings.to_json()) == settings


def test_something_else_than_settings_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="not the settings"):
        ReplaySettings.from_json({"fleet": 3})
