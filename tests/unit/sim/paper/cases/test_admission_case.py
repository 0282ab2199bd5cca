"""The sweep of caps: what is run, and what is said of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sim.fleet.replay.result import ReplayResult
from sim.fleet.replay.runner import Job
from sim.paper.admission_cells import (
    FAIR_ROBOTS,
    MIXES,
    OTHERS,
    OURS,
    OURS_MISLED,
    STEADY,
    cells,
    fair_jobs,
)
from sim.paper.case import Workplace
from sim.paper.cases import admission
from tests.fakes.replay_worker import result


class Rehearsal(Workplace):
    """Gives results without running anything: of all caps 24 is the best."""

    def replays(self, jobs: Sequence[Job], what: str) -> list[ReplayResult]:
        return [self._result(job) for job in jobs]

    def _result(self, job: Job) -> ReplayResult:
        choice = job.settings.admission
        cap = choice.settings.get("cap")
        rps = 2.42 if cap is None else 2.4 - 0.02 * abs(cap - 24)
        return replace(
            result(job.seed, "x"),
            rps=rps,
            episodes_per_min=2.5 * rps,
            hit_after_warm_up=0.94 if choice.told_pool_share > 1 else 0.99,
            jain=0.97,
            fewest_episodes=8 if job.settings.fleet[0].num_robots < 96 else 7,
            door_wait_s={"p99": 300.0},
            duration_s=job.settings.duration_s,
        )


def made(folder: Path, **others: Any) -> dict[str, Any]:
    pytest.importorskip("matplotlib")
    admission.run(Rehearsal(folder, 1, lambda _: None, **others))
    content: dict[str, Any] = json.loads((folder / "admission.json").read_text())
    return content


def rows_of(content: dict[str, Any], **wanted: str) -> list[dict[str, Any]]:
    return [row for row in content["rows"] if all(row[k] == v for k, v in wanted.items())]


def test_the_full_sweep_has_every_mix_policy_and_seed_once() -> None:
    found = cells(range(10), is_full=True)

    assert len({(cell.mix.name, cell.policy) for cell in found}) == len(found)
    for mix in MIXES:
        policies = {cell.policy for cell in found if cell.mix == mix}
        assert {OURS, OURS_MISLED} <= policies
        assert sum(policy.startswith("static cap") for policy in policies) >= 4
        assert (set(OTHERS) <= policies) == (mix in STEADY)
    assert all([job.seed for job in cell.jobs] == list(range(10)) for cell in found)


def test_only_one_policy_is_told_a_wrong_pool() -> None:
    told = {
        cell.policy
        for cell in cells((0,), is_full=True)
        if cell.jobs[0].settings.admission.told_pool_share != 1.0
    }

    assert told == {OURS_MISLED}


def test_evenness_is_looked_at_over_times_in_which_each_robot_ends_several_episodes() -> None:
    jobs = fair_jobs(0)

    assert set(jobs) == {(mix.name, robots) for mix in STEADY for robots in FAIR_ROBOTS}
    for mix in STEADY:
        for robots in FAIR_ROBOTS:
            minutes = jobs[mix.name, robots].settings.duration_s / 60
            assert minutes * mix.episodes_per_min / robots > 8


def test_ours_is_measured_by_the_best_cap_and_judged_by_the_goal(tmp_path: Path) -> None:
    content = made(tmp_path, num_seeds=2)

    (steady,) = rows_of(content, row="all_N48", quantity="rps_of_best_cap", variant=OURS)
    (turning,) = rows_of(content, row="turning_N48", quantity="rps_of_best_cap", variant=OURS)
    assert steady["ours"] == pytest.approx(2.42 / 2.4)
    assert (steady["verdict"], turning["verdict"]) == ("inside", "outside")
    assert "static cap 24" in steady["note"]


def test_one_run_below_the_least_hit_rate_is_outside(tmp_path: Path) -> None:
    content = made(tmp_path, num_seeds=2)

    hits = {
        row["variant"]: row["verdict"]
        for row in rows_of(content, row="long_N48", quantity="lowest_hit_of_a_run")
    }

    assert hits == {OURS: "inside", OURS_MISLED: "outside"}


def test_evenness_is_judged_only_where_each_robot_has_done_enough(tmp_path: Path) -> None:
    content = made(tmp_path, num_seeds=2)

    verdicts = [
        rows_of(content, row=f"all_N{n}", quantity="jain", variant=f"{OURS}, even")[0]["verdict"]
        for n in FAIR_ROBOTS
    ]

    assert verdicts == ["inside", "inside", "not judged"]


def test_a_short_run_leaves_table_and_picture_with_its_command(tmp_path: Path) -> None:
    content = made(tmp_path, quick=True)

    table = (tmp_path / "admission.md").read_text()
    assert "python -m sim paper admission --quick" in table
    assert "**static cap 24**" in table
    assert (tmp_path / content["pictures"][0]["file"]).stat().st_size > 0
    assert len(cells((0,), is_full=False, mixes=MIXES[:1])) <= 5
