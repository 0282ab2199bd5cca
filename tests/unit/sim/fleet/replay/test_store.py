from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from robot_sdk.errors import InvalidArgumentError
from sim.fleet.replay.result import ReplayResult
from sim.fleet.replay.settings import ReplaySettings
from sim.fleet.replay.store import ResultStore
from tests.unit.sim.fleet.replay.conftest import ENGINE, Played


@pytest.fixture
def result() -> ReplayResult:
    settings = ReplaySettings.sustained(2, engine=ENGINE, duration_s=20.0)
    return Played(settings).result


def test_a_kept_result_comes_back_as_it_was(tmp_path: Path, result: ReplayResult) -> None:
    store = ResultStore(tmp_path / "deep" / "store.jsonl")
    store.add("k1", {"seed": 7}, result)
    assert store.read({"k1", "k2"}) == {"k1": result}


def test_what_is_not_asked_for_is_not_returned(tmp_path: Path, result: ReplayResult) -> None:
    store = ResultStore(tmp_path / "store.jsonl")
    store.add("k1", {}, result)
    assert store.read({"k2"}) == {}


def test_a_last_line_that_was_cut_off_is_dropped_and_the_next_result_is_whole(
    tmp_path: Path, result: ReplayResult
) -> None:
    path = tmp_path / "store.jsonl"
    store = ResultStore(path)
    store.add("k1", {}, result)
    store.add("k2", {}, result)
    path.write_bytes(path.read_bytes()[:-100])
    assert set(store.read({"k1", "k2"})) == {"k1"}
    store.add("k3", {}, result)
    assert set(store.read({"k1", "k2", "k3"})) == {"k1", "k3"}


def test_a_partial_result_is_kept_but_does_not_stand_for_the_run(
    tmp_path: Path, result: ReplayResult
) -> None:
    store = ResultStore(tmp_path / "store.jsonl")
    store.add("k1", {}, replace(result, is_partial=True))
    assert store.read({"k1"}) == {}
    store.add("k1", {}, result)
    assert store.read({"k1"}) == {"k1": result}


def test_a_broken_line_is_named(tmp_path: Path, result: ReplayResult) -> None:
    path = tmp_path / "store.jsonl"
    store = ResultStore(path)
    store.add("k1", {}, result)
    path.write_text('{"key": "k2", "result": 3}\n' + path.read_text())
    with pytest.raises(InvalidArgumentError, match="line 1"):
        store.read({"k2"})


def test_without_a_file_nothing_is_kept(result: ReplayResult) -> None:
    store = ResultStore(None)
    store.add("k1", {}, result)
    assert store.read({"k1"}) == {}
