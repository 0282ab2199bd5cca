from __future__ import annotations

from typing import Any

import pytest

from robot_sdk.errors import InvalidArgumentError
from sim.fleet.live.settings import (
    MOST_ROBOTS,
    LiveSettings,
    check_live,
    is_loopback,
    robots_own,
)
from sim.fleet.replay.settings import AdmissionChoice, EngineChoice, FleetPoint, ReplaySettings

HERE = "127.0.0.1:50051"


@pytest.mark.parametrize("address", [HERE, "127.8.9.10:1", "localhost:1", "[::1]:1"])
def test_addresses_of_this_machine_are_known_by_their_text(address: str) -> None:
    assert is_loopback(address)


@pytest.mark.parametrize(
    "address",
    ["10.0.0.5:1", "gpu-box:1", "127.0.0.1.example.org:1", "localhost.example.org:1", "[::]:1"],
)
def test_a_load_test_goes_to_another_machine_only_if_that_is_allowed(address: str) -> None:
    settings = ReplaySettings.sustained(3)
    with pytest.raises(InvalidArgumentError, match="--allow-remote"):
        check_live(LiveSettings(address), settings, 0)
    check_live(LiveSettings(address, allows_remote=True), settings, 0)


@pytest.mark.parametrize(
    ("live", "field"),
    [
        ({"address": "nowhere"}, "target"),
        ({"token_scale": 0.0}, "token_scale"),
        ({"token_scale": float("nan")}, "token_scale"),
        ({"time_scale": -1.0}, "time_scale"),
        ({"turn_timeout_s": 1e6}, "turn_timeout_s"),
    ],
)
def test_what_is_out_of_range_is_refused_by_name(live: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        check_live(LiveSettings(**{"address": HERE, **live}), ReplaySettings.sustained(3), 0)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"admission": AdmissionChoice("static-cap", {"cap": 3})}, "admission"),
        ({"engine": EngineChoice(pool_blocks=10)}, "engine"),
        ({"round_trip_s": 0.1}, "round_trip_s"),
        ({"cost": "another"}, "cost"),
    ],
)
def test_what_the_server_has_of_its_own_cannot_be_chosen(
    change: dict[str, Any], field: str
) -> None:
    settings = ReplaySettings((FleetPoint(0.0, 3),), **change)
    with pytest.raises(InvalidArgumentError, match="server has its own") as caught:
        check_live(LiveSettings(HERE), settings, 0)
    assert caught.value.field == field


def test_the_robots_own_settings_hold_nothing_of_the_server() -> None:
    assert set(robots_own(ReplaySettings.sustained(3))) == {
        "fleet",
        "workload",
        "duration_s",
        "warm_up_s",
        "episodes_per_robot",
    }


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        (ReplaySettings.sustained(MOST_ROBOTS + 1), "robots"),
        (ReplaySettings.sustained(3, duration_s=2 * 86_400.0), "duration_s"),
        (ReplaySettings.sustained(0), "robots"),
    ],
)
def test_robots_and_time_are_bounded(settings: ReplaySettings, field: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        check_live(LiveSettings(HERE), settings, 0)
    assert caught.value.field == field
