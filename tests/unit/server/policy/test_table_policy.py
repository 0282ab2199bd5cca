from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from robot_sdk.clock import VirtualClock
from server.core.batching import STUDY_TABLE
from server.policy.interface import PolicyInput
from server.policy.table_policy import STATE_KEY, TablePolicy


def inputs(*control_steps: int) -> list[PolicyInput]:
    return [
        PolicyInput("go", {STATE_KEY: np.zeros(8, np.float32)}, {}, 0, step)
        for step in control_steps
    ]


@pytest.mark.parametrize(("size", "latency_s"), [(1, 0.160), (8, 0.249), (64, 1.030), (100, 1.030)])
def test_a_batch_takes_the_tables_time(size: int, latency_s: float) -> None:
    clock = VirtualClock()
    TablePolicy(clock=clock).infer(inputs(*range(size)))
    assert clock.now_s() == pytest.approx(latency_s)


def test_rows_are_the_numbers_of_their_steps() -> None:
    outputs = TablePolicy(clock=VirtualClock(), horizon=4, action_dim=2).infer(inputs(3, 70_000))
    assert outputs[0].actions.tolist() == [[3.0, 3.0], [4.0, 4.0], [5.0, 5.0], [6.0, 6.0]]
    assert outputs[1].actions[:, 0].tolist() == [70_000.0, 70_001.0, 70_002.0, 70_003.0]


def test_the_table_of_a_file_is_used_and_named(tmp_path: Path) -> None:
    content = STUDY_TABLE.to_json()
    content["policy"] = "other"
    content["rows"] = [content["rows"][0] | {"p50_s": 0.5}]
    path = tmp_path / "table.json"
    path.write_text(json.dumps(content))
    clock = VirtualClock()
    policy = TablePolicy(str(path), clock=clock)
    policy.infer(inputs(0))
    assert clock.now_s() == 0.5
    assert "other" in policy.spec.note
    assert policy.spec.stand_in


def test_pictures_are_asked_for_only_with_a_size() -> None:
    names = [key.name for key in TablePolicy(image_px=32).spec.observation_keys]
    assert names == [STATE_KEY, "images/agentview", "images/wrist"]
    assert [key.name for key in TablePolicy().spec.observation_keys] == [STATE_KEY]
