from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from sim.fleet.replay.result import ReplayResult, Window
from sim.fleet.replay.runner import Job
from sim.paper.case import Workplace
from sim.paper.cases import (
    aimd,
    arrival_paths,
    finite_batch,
    recovery,
    static_cap,
    sustained,
)
from sim.paper.replay_rows import ALL, FleetRun, study_value
from sim.paper.rows import Row
from tests.fakes.replay_worker import result

CASES = (sustained, static_cap, aimd, arrival_paths, finite_batch, recovery)


def workplace(folder: Path, quick: bool = False, study: bool = True) -> Workplace:
    return Workplace(folder, 1, lambda _: None, quick=quick, study_folder=folder if study else None)


def window(index: int, hit: float | None, turns: int = 120) -> Window:
    start_s = 120.0 * index
    return Window(start_s, start_s + 120.0, turns, hit, 0, 0, 0, 0, 0, 0.0, 0.0, 0.3, 0.5, 16)


def run_of(*hits: float | None, **changes: object) -> ReplayResult:
    windows = tuple(window(index, hit) for index, hit in enumerate(hits))
    return replace(result(1, "x"), windows=windows, duration_s=120.0 * len(hits), **changes)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__.rsplit(".")[-1])
def test_every_case_can_be_run_with_either_version_and_quick_ones_are_short(
    case: object, tmp_path: Path
) -> None:
    for study in (True, False):
        whole = case.fleet_runs(workplace(tmp_path, study=study))  # type: ignore[attr-defined]
        versions = {job.settings.engine.version for run in whole for job in run.jobs}
        assert versions <= ({"study", "installed"} if study else {"installed"})
        quick = case.fleet_runs(workplace(tmp_path, quick=True, study=study))  # type: ignore[attr-defined]
        assert sum(len(run.jobs) for run in quick) <= 3


class Rehearsal(Workplace):
    """Gives results without running anything: hits fall in every other seed."""

    def replays(self, jobs: Sequence[Job], what: str) -> list[ReplayResult]:
        return [self._result(job) for job in jobs]

    def _result(self, job: Job) -> ReplayResult:
        num_windows = max(int(job.settings.duration_s // 120), 1)
        low = 0.1 if job.seed % 2 else 1.0
        windows = tuple(window(index, low if index > 1 else 1.0) for index in range(num_windows))
        return replace(
            result(job.seed, job.settings.engine.version),
            windows=windows,
            duration_s=120.0 * num_windows,
            rps=2.0 + 0.1 * job.seed,
            jain=0.9,
            episodes_per_min=5.0,
            first_low_hit_s=360.0 if job.seed % 2 else None,
        )


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__.rsplit(".")[-1])
def test_a_case_leaves_rows_that_can_be_read_and_every_picture_that_it_names(
    case: object, quick: bool, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    place = Rehearsal(tmp_path, 1, lambda _: None, quick=quick, study_folder=tmp_path)
    case.CASE.run(place)  # type: ignore[attr-defined]
    name = case.__name__.rsplit(".")[-1].replace("_", "-")  # type: ignore[attr-defined]
    content = json.loads((tmp_path / f"{name}.json").read_text())
    rows = [Row.from_json(row) for row in content["rows"]]
    assert any(row.ours is not None and row.study is not None for row in rows)
    assert content["pictures"]
    for picture in content["pictures"]:
        assert (tmp_path / picture["file"]).stat().st_size > 10_000


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__.rsplit(".")[-1])
def test_rows_can_be_told_apart(case: object, tmp_path: Path) -> None:
    runs = case.fleet_runs(workplace(tmp_path))  # type: ignore[attr-defined]
    names = [(run.row, run.variant) for run in runs]
    assert len(names) == len(set(names))


def test_rows_that_the_study_has_are_found_by_their_names() -> None:
    assert study_value("brain_tier/static_cap/N48_K20/rps") == 2.377
    assert study_value("brain_tier/static_cap/N32_K16/rps") == (2.235, 2.253)
    assert study_value("brain_tier/static_cap/N48_K12/jain") is None
    assert study_value("brain_tier/nothing/N1/rps") is None


def test_a_stable_fleet_is_judged_by_nearness_and_a_collapsing_one_by_its_seeds() -> None:
    stable = FleetRun("N48_K20", static_cap.PATH + "/N48_K20", (), True, "v")
    near, far = run_of(1.0, rps=2.45), run_of(1.0, rps=2.60)
    rps = ALL[:1]
    assert stable.rows([near], rps)[0].verdict == "inside"
    assert stable.rows([far], rps)[0].verdict == "outside"
    collapsing = replace(stable, is_stable=False)
    assert collapsing.rows([far, far], rps)[0].verdict == "outside"
    assert collapsing.rows([far, run_of(1.0, rps=1.0)], rps)[0].verdict == "inside"
    assert replace(stable, is_judged=False).rows([far], rps)[0].verdict == "not judged"


def test_the_studys_times_to_collapse_count_its_censored_runs() -> None:
    durations = sustained.study_durations("N24")
    assert [d.time_s for d in durations if d.happened] == [480, 960, 1080, 1200]
    assert [d.time_s for d in durations if not d.happened] == [1800.0, 1800.0]
    assert sustained.study_collapsed_share("N24") == pytest.approx(4 / 6)
    assert sustained.study_durations("N32") == []


def test_a_fleet_that_never_collapsed_is_censored_and_counted() -> None:
    run = FleetRun("N24", f"{sustained.PATH}/N24", (), False, "v")
    runs = [run_of(1.0, 0.5, first_low_hit_s=240.0), run_of(1.0, 1.0)]
    rows = {row.quantity: row for row in sustained.rows_of(run, runs)}
    assert rows["collapsed_share"].ours == 0.5
    assert rows["first_window_under_80pct_hit_s"].per_seed == (240.0, None)
    assert rows["first_window_under_80pct_hit_s"].ours == 240.0
    curve = sustained.survival(runs)
    assert curve.censored_s == (240.0,)
    assert curve.steps[0].survival == 0.5


def test_ramps_go_one_robot_at_a_time_and_end_where_they_should() -> None:
    up = arrival_paths.ramp(2, 5, 30.0)
    assert [(p.time_s, p.num_robots) for p in up] == [(0, 2), (10, 3), (20, 4), (30, 5)]
    down = arrival_paths.ramp(4, 2, 30.0)
    assert [(p.time_s, p.num_robots) for p in down] == [(0, 4), (15, 3), (30, 2)]


def test_the_rate_after_a_ramp_counts_whole_windows_after_it() -> None:
    run = replace(run_of(), windows=(window(0, 1.0, turns=999), window(1, 1.0), window(2, 1.0)))
    assert arrival_paths.rps_after(run, 120.0) == pytest.approx(1.0)


def test_the_last_hit_of_a_batch_leaves_the_rest_of_a_window_out() -> None:
    assert finite_batch.last_hit(run_of(0.5, 1.0, 0.0)) == 1.0
    assert finite_batch.lowest_hit(run_of(0.5, None, 1.0)) == 0.5


@pytest.mark.parametrize(
    ("hits", "minutes"),
    [
        ((0.4, 0.4, 0.4, 0.9, 0.96), 6.0),
        ((0.4, 0.4, 0.4, 0.4), None),
        ((1.0, 1.0, 0.4), 0.0),
    ],
)
def test_recovery_is_counted_from_the_withdrawal(
    hits: tuple[float, ...], minutes: float | None
) -> None:
    assert recovery.minutes_to_recover(run_of(*hits), withdrawn_s=240.0) == minutes


def test_the_aimd_rows_count_decreases_and_the_highest_cap() -> None:
    run = run_of(1.0, controls={"raise": 11, "hold": 29, "lower": 0})
    assert aimd.DECREASES.value_of(run) == 0
    assert aimd.CONTROLS.value_of(run) == 40
    assert aimd.HIGHEST_CAP.value_of(run) == 16


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__.rsplit(".")[-1])
def test_runs_too_short_to_mean_anything_are_set_beside_the_study_and_not_judged(
    case: object, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    case.run(Rehearsal(tmp_path, 1, lambda _: None, quick=True, study_folder=tmp_path))  # type: ignore[attr-defined]
    (file,) = tmp_path.glob("*.json")
    rows = json.loads(file.read_text())["rows"]
    assert any(row["study"] is not None for row in rows)
    assert {row["verdict"] for row in rows} <= {"not judged", "not run"}
