from __future__ import annotations

import fcntl
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from robot_sdk.errors import InvalidArgumentError, RobotSdkError
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


@pytest.mark.parametrize(
    "line",
    [
        b'{"key": "k2"}',
        b'{"key": "k2", "result": []}',
        b'{"key": "k2", "result": ' + b"[" * 100_000,
        b'{"key": "k2", "result": \xff\xfe}',
    ],
    ids=len,
)
def test_whatever_stands_in_a_broken_line_it_is_named(
    tmp_path: Path, result: ReplayResult, line: bytes
) -> None:
    path = tmp_path / "store.jsonl"
    store = ResultStore(path)
    store.add("k1", {}, result)
    path.write_bytes(path.read_bytes() + line + b"\n")
    with pytest.raises(InvalidArgumentError, match="line 2"):
        store.read({"k1", "k2"})
    assert store.read({"k1"}) == {"k1": result}


@pytest.mark.parametrize("content", [b"a letter\nwithout an end", b"\x00\xff", b'{"key": 3}'])
def test_a_file_that_is_somebody_elses_is_refused_and_left_as_it_is(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "letter.txt"
    path.write_bytes(content)
    with pytest.raises(InvalidArgumentError, match="something else than kept results"):
        ResultStore(path).read({"k1"})
    assert path.read_bytes() == content


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="not a file"):
        ResultStore(tmp_path).read({"k1"})


def test_half_a_line_of_a_process_that_was_killed_does_not_spoil_anothers_line(
    tmp_path: Path, result: ReplayResult
) -> None:
    path = tmp_path / "store.jsonl"
    store = ResultStore(path)
    store.add("k1", {}, result)
    with path.open("ab") as file:
        file.write(b'{"key": "k2", "job": ' + b"x" * 200_000)
    store.add("k3", {}, result)
    assert store.read({"k1", "k2", "k3"}) == {"k1": result, "k3": result}


def test_a_line_that_another_process_is_writing_is_waited_for(
    tmp_path: Path, result: ReplayResult
) -> None:
    path = tmp_path / "store.jsonl"
    store = ResultStore(path)
    store.add("k1", {}, result)
    whole = path.read_bytes()
    locked, done = threading.Event(), threading.Event()

    def write_slowly() -> None:
        with path.open("ab", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(whole.replace(b"k1", b"k2")[:50])
            locked.set()
            done.wait(10.0)
            file.write(whole[50:])

    other = threading.Thread(target=write_slowly, daemon=True)
    other.start()
    assert locked.wait(10.0)
    adding = threading.Thread(target=store.add, args=("k3", {}, result), daemon=True)
    adding.start()
    done.set()
    adding.join(10.0)
    other.join(10.0)
    assert set(ResultStore(path).read({"k1", "k2", "k3"})) == {"k1", "k2", "k3"}


def test_a_result_that_cannot_be_written_is_told(result: ReplayResult) -> None:
    with pytest.raises(RobotSdkError, match="cannot be kept"):
        ResultStore(Path("/proc/none/store.jsonl")).add("k1", {}, result)


def test_without_a_file_nothing_is_kept(result: ReplayResult) -> None:
    store = ResultStore(None)
    store.add("k1", {}, result)
    assert store.read({"k1"}) == {}
