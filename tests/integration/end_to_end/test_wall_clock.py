"""A robot whose wall clock is wrong, or is set while it works."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.integration.end_to_end.conftest import Start
from tests.integration.end_to_end.harness import FINISH, RobotProcess, config

LIBRARY = next(
    (
        path
        for folder in ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib")
        if (path := Path(folder, "faketime", "libfaketimeMT.so.1")).exists()
    ),
    None,
)
pytestmark = pytest.mark.skipif(
    LIBRARY is None, reason="needs libfaketime (apt-get install faketime)"
)


def faked(**more: str) -> Mapping[str, str]:
    """An environment in which only the wall clock is another."""
    return {
        **os.environ,
        "LD_PRELOAD": str(LIBRARY),
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
        **more,
    }


def assert_undisturbed(result: dict[str, Any]) -> None:
    assert (result["outcome"], result["reason"]) == ("success", "finished")
    steps = result["steps"]
    assert len(steps) >= 50
    assert all(step == value for step, value in steps), "every row in the step it was made for"
    assert result["starved_ticks"] < 20, "no chunk was dropped for its age"
    assert all(0 <= brain_s < 20 for brain_s in result["brain_s"])
    assert 4 <= result["duration_s"] < 40
    # Both ends are on one machine, so that their monotonic clocks are the same.
    assert abs(result["clock_offset_s"]) <= result["clock_bound_s"] + 0.001


@pytest.mark.parametrize("offset_s", [300, -300])
def test_b7_a_robot_whose_clock_is_five_minutes_off_works_as_any(
    start_server: Start, offset_s: int
) -> None:
    server = start_server(config([("drive", {"steps": 80}), FINISH], lease_ttl_s=2.0))
    environment = faked(FAKETIME=f"{offset_s:+d}s")
    with RobotProcess(server.address, environment=environment) as robot:
        result = robot.until("result")

    assert abs(result["wall_s"] - time.time() - offset_s) < 60, "the clock was not faked"
    assert_undisturbed(result)


@pytest.mark.parametrize("step_s", [-2, 300])
def test_b7_a_clock_that_is_set_during_an_episode_disturbs_nothing(
    start_server: Start, tmp_path: Path, step_s: int
) -> None:
    server = start_server(config([("drive", {"steps": 80}), FINISH], lease_ttl_s=2.0))
    offset = tmp_path / "offset"
    offset.write_text("+0s\n")
    environment = faked(FAKETIME_TIMESTAMP_FILE=str(offset), FAKETIME_NO_CACHE="1")
    with RobotProcess(server.address, environment=environment) as robot:
        robot.until("acted")
        replacement = tmp_path / "new"
        replacement.write_text(f"{step_s:+d}s\n")
        replacement.replace(offset)  # at once, so that no half-written file is read
        result = robot.until("result")

    jump_s = "smallest_wall_step_s" if step_s < 0 else "largest_wall_step_s"
    assert abs(result[jump_s] - step_s) < 1.0, "the clock was not set"
    assert_undisturbed(result)
