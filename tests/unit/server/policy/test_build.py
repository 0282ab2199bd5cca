from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from robot_sdk.clock import VirtualClock
from server.config import ConfigError
from server.core.batching import BATCHER_NAMES, STUDY_TABLE
from server.policy.build import build_policy
from server.policy.driver import PolicyDriver
from server.policy.registry import BUILT_IN
from server.sections.policy import PolicySection


def build(**settings: Any) -> PolicyDriver:
    return build_policy(
        "mine",
        dataclasses.replace(PolicySection(), **settings),
        max_message_bytes=1024,
        clock=VirtualClock(),
        on_chunk=lambda _: None,
    )


def test_every_kind_that_can_be_configured_has_a_factory() -> None:
    (field,) = [f for f in dataclasses.fields(PolicySection) if f.name == "kind"]
    assert set(field.metadata["choices"]) == {*BUILT_IN, "factory"}


@pytest.mark.parametrize("name", BATCHER_NAMES)
def test_every_batcher_can_be_configured(name: str) -> None:
    assert build(batcher=name).tier_status().name == name


def test_the_default_meets_deadlines() -> None:
    assert build().tier_status().name == "deadline"


def test_workers_are_counted_for_each_device() -> None:
    assert build(workers=2, devices=["0", "1", "2"]).num_workers == 6
    assert build(workers=2).num_workers == 2


def test_a_latency_table_is_known_before_the_first_batch(tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    path.write_text(json.dumps(STUDY_TABLE.to_json()))
    latencies = build(latency_table=str(path)).tier_status().latencies
    assert {row.batch_size: row.latency_s for row in latencies}[8] == 0.249
    assert all(row.num_samples == 0 for row in latencies)


def test_a_table_that_is_not_there_or_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"policies\.mine\.latency_table: cannot read"):
        build(latency_table=str(tmp_path / "none.json"))
    for text in ("[", "{}", '{"format": "other/9"}'):
        (tmp_path / "bad.json").write_text(text)
        with pytest.raises(ConfigError, match=r"policies\.mine\.latency_table: .* is no latency"):
            build(latency_table=str(tmp_path / "bad.json"))


def test_a_table_that_ends_below_the_largest_batch_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    path.write_text(json.dumps(STUDY_TABLE.to_json()))
    with pytest.raises(
        ConfigError, match=r"ends at batches of 64; lower policies\.mine\.max_batch"
    ):
        build(latency_table=str(path), max_batch=65)
