"""Episodes of one task are kept as they end."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from robot_sdk.errors import InvalidArgumentError
from sim.closed_loop import batch
from sim.closed_loop.batch import TaskBatch, Trial, run_batch
from sim.closed_loop.chunk_load import ChunkLoad
from sim.closed_loop.delays import NO_DELAYS, EpisodeDelays
from sim.closed_loop.episode import ClosedLoopRecord
from sim.code_meaning import files_of

LOAD = ChunkLoad("paced", 0)
TRIALS = (
    Trial("no_delay", 0, NO_DELAYS, LOAD),
    Trial("N20", 0, EpisodeDelays(0.0, (5.0,)), LOAD),
)


def record(ended_s: float) -> ClosedLoopRecord:
    values: dict[str, Any] = {field.name: 0 for field in dataclasses.fields(ClosedLoopRecord)}
    return ClosedLoopRecord(**{**values, "suite": "s", "reason": "finished", "ended_s": ended_s})


class World:
    """Stands for server and simulator; counts the episodes that are run."""

    def __init__(self) -> None:
        self.ran: list[float] = []
        self.breaks_after: int | None = None

    def episode(self, _client: object, _env: object, delays: EpisodeDelays, *_: object) -> Any:
        if self.breaks_after is not None and len(self.ran) >= self.breaks_after:
            raise KeyboardInterrupt
        self.ran.append(delays.turn_s(0))
        return record(delays.turn_s(0))


class _Env:
    def reset(self, init: int) -> None:
        assert init == 0


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    found = World()

    @contextmanager
    def opened(value: object) -> Iterator[object]:
        yield value

    def opener(value: object) -> Callable[..., object]:
        return lambda *_args, **_options: opened(value)

    monkeypatch.setattr(batch, "connect", opener(object()))
    monkeypatch.setattr(batch, "LiberoEnv", opener(_Env()))
    monkeypatch.setattr(batch, "run_closed_loop", found.episode)
    return found


def task(folder: Path, trials: tuple[Trial, ...] = TRIALS) -> TaskBatch:
    return TaskBatch("server:1", "libero_object_swap", 3, trials, str(folder / "task3.jsonl"))


def test_records_come_in_the_order_of_the_trials(world: World, tmp_path: Path) -> None:
    found = run_batch(task(tmp_path))
    assert [(one.condition, one.record.ended_s) for one in found] == [
        ("no_delay", 0.0),
        ("N20", 5.0),
    ]


def test_what_was_run_before_is_not_run_again(world: World, tmp_path: Path) -> None:
    first = run_batch(task(tmp_path))
    assert run_batch(task(tmp_path)) == first
    assert world.ran == [0.0, 5.0]


def test_an_interrupted_batch_goes_on_where_it_was(world: World, tmp_path: Path) -> None:
    world.breaks_after = 1
    with pytest.raises(KeyboardInterrupt):
        run_batch(task(tmp_path))
    with (tmp_path / "task3.jsonl").open("a") as file:
        file.write('{"key": "cut off')
    world.breaks_after = None
    assert len(run_batch(task(tmp_path))) == 2
    assert world.ran == [0.0, 5.0]


def test_another_delay_load_or_task_is_another_episode(world: World, tmp_path: Path) -> None:
    run_batch(task(tmp_path))
    other_delay = dataclasses.replace(TRIALS[1], delays=EpisodeDelays(0.0, (6.0,)))
    other_load = dataclasses.replace(TRIALS[1], load=ChunkLoad("paced", 1))
    run_batch(task(tmp_path, (other_delay, other_load)))
    run_batch(dataclasses.replace(task(tmp_path), task=4))
    assert world.ran == [0.0, 5.0, 6.0, 5.0, 0.0, 5.0]


def test_the_name_of_a_condition_makes_no_other_episode(world: World, tmp_path: Path) -> None:
    run_batch(task(tmp_path))
    renamed = dataclasses.replace(TRIALS[1], condition="N20_again")
    assert run_batch(task(tmp_path, (renamed,)))[0].condition == "N20_again"
    assert world.ran == [0.0, 5.0]


def test_episodes_of_other_code_with_other_fields_are_passed_over(
    world: World, tmp_path: Path
) -> None:
    (tmp_path / "task3.jsonl").write_text('{"key": "old", "record": {"no_more": 1}}\n')
    assert len(run_batch(task(tmp_path))) == 2
    assert world.ran == [0.0, 5.0]


@pytest.mark.parametrize("line", ["no JSON", "[]", '{"key": "a"}'])
def test_a_file_of_something_else_is_named_with_its_line(
    world: World, tmp_path: Path, line: str
) -> None:
    (tmp_path / "task3.jsonl").write_text(f"{line}\n")
    with pytest.raises(InvalidArgumentError, match=r"line 1 .*task3\.jsonl"):
        run_batch(task(tmp_path))
    assert world.ran == []


def test_nothing_is_kept_without_a_file(world: World, tmp_path: Path) -> None:
    unkept = dataclasses.replace(task(tmp_path), kept="")
    run_batch(unkept)
    run_batch(unkept)
    assert world.ran == [0.0, 5.0, 0.0, 5.0]
    assert not list(tmp_path.iterdir())


def test_every_part_that_an_episode_depends_on_is_there() -> None:
    for part in batch._CODE:
        assert list(files_of(batch._ROOT / part)), part
