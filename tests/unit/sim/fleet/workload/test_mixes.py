from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path

import pytest

from robot_sdk.errors import InvalidArgumentError
from sim.fleet.replay.settings import WorkloadChoice
from sim.fleet.workload.generator import generate
from sim.fleet.workload.mixes import TURNING, episodes
from sim.fleet.workload.suites import SUITES
from sim.fleet.workload.trace import EpisodeTrace
from sim.fleet.workload.trace_file import write_traces

LONG = SUITES[-1].family


def _first(num: int, mix: str, order: str = "shuffled", seed: int = 0) -> list[EpisodeTrace]:
    choice = WorkloadChoice(mix=mix, order=order)  # type: ignore[arg-type]
    return list(islice(episodes(choice, seed), num))


def test_every_pass_has_each_episode_once_in_another_order() -> None:
    taken = _first(160, "all")
    assert Counter(taken) == Counter(dict.fromkeys(generate(0), 2))
    assert taken[:80] != taken[80:]
    assert set(taken[:80]) == set(taken[80:])


def test_suite_order_is_the_studys() -> None:
    assert tuple(_first(80, "all", "suite")) == generate(0)
    families = [trace.task_family for trace in _first(160, "all", "suite")]
    assert families == [suite.family for suite in SUITES for _ in range(20)] * 2


@pytest.mark.parametrize(("mix", "num", "is_long"), [("long", 20, True), ("short", 60, False)])
def test_a_mix_has_its_suites_alone(mix: str, num: int, is_long: bool) -> None:
    taken = _first(num, mix)
    assert len(set(taken)) == num
    assert all((trace.task_family == LONG) == is_long for trace in taken)


@pytest.mark.parametrize("order", ["shuffled", "suite"])
def test_turning_goes_from_short_to_long_and_back(order: str) -> None:
    (_, num_short), (_, num_long) = TURNING
    taken = _first(2 * num_short + num_long, "turning", order)
    is_long = [trace.task_family == LONG for trace in taken]
    assert is_long == [False] * num_short + [True] * num_long + [False] * num_short


def test_a_seed_gives_the_same_order_and_another_seed_another() -> None:
    assert _first(90, "all") == _first(90, "all")
    tasks = [[trace.trace_id for trace in _first(80, "all", seed=seed)] for seed in (0, 1)]
    assert tasks[0] != tasks[1]


def test_a_trace_file_is_a_mix(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    write_traces(path, generate(0)[:3])
    assert _first(6, str(path), "suite") == [*generate(0)[:3], *generate(0)[:3]]
    assert set(_first(3, str(path))) == set(generate(0)[:3])


def test_a_file_that_is_not_there_is_refused_at_the_first_episode(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="No such file"):
        _first(1, str(tmp_path / "none.jsonl"))
