from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from robot_sdk.errors import InvalidArgumentError, RobotSdkError
from sim.fleet.replay import runner
from sim.fleet.replay.result import ReplayResult
from sim.fleet.replay.runner import Job, Progress, WorkerPool, run_many
from sim.fleet.replay.settings import (
    AdmissionChoice,
    EngineChoice,
    OffloadChoice,
    ReplaySettings,
    WorkloadChoice,
)
from tests.fakes.replay_worker import result

SETTINGS = ReplaySettings.sustained(2, duration_s=1.0)
STUDY = ReplaySettings.sustained(2, duration_s=1.0, engine=EngineChoice("study"))


@pytest.fixture(autouse=True)
def fake_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "WORKER_MODULE", "tests.fakes.replay_worker")
    monkeypatch.setattr(runner.vllm_library, "installed_version", lambda: "0.32.0")


@pytest.fixture
def study_folder(tmp_path: Path) -> Path:
    (tmp_path / "vllm" / "vllm").mkdir(parents=True)
    (tmp_path / "vllm" / "vllm" / "__init__.py").touch()
    (tmp_path / "dependencies").mkdir()
    return tmp_path


def seeds(results: list[ReplayResult]) -> list[int]:
    return [result.seed for result in results]


def test_results_come_in_the_order_of_the_jobs() -> None:
    jobs = [Job(SETTINGS, seed) for seed in (5, 3, 8, 1)]
    assert seeds(list(run_many(jobs, processes=2))) == [5, 3, 8, 1]


def test_each_version_runs_in_processes_of_its_own(study_folder: Path) -> None:
    jobs = [Job(SETTINGS, 1), Job(STUDY, 2), Job(SETTINGS, 3), Job(STUDY, 4)]
    results = list(run_many(jobs, processes=1, study_folder=study_folder))
    assert [r.engine_version for r in results] == ["installed", "study", "installed", "study"]
    assert results[0].wall_s == results[2].wall_s  # one process for both
    assert results[0].wall_s != results[1].wall_s


def test_what_was_run_before_is_not_run_again(tmp_path: Path) -> None:
    store = tmp_path / "store.jsonl"
    first = list(run_many([Job(SETTINGS, 1)], processes=1, store=store))
    again = list(run_many([Job(SETTINGS, 1), Job(SETTINGS, 2)], processes=1, store=store))
    assert again[0] == first[0]
    assert again[1].wall_s != first[0].wall_s


def test_other_settings_are_another_run(tmp_path: Path) -> None:
    store = tmp_path / "store.jsonl"
    other = ReplaySettings.sustained(2, duration_s=1.0, round_trip_s=0.1)
    pids = {
        next(iter(run_many([Job(settings, 1)], processes=1, store=store))).wall_s
        for settings in (SETTINGS, other)
    }
    assert len(pids) == 2


def test_a_run_that_fails_is_told_and_the_others_results_are_kept(tmp_path: Path) -> None:
    store = tmp_path / "store.jsonl"
    jobs = [Job(SETTINGS, 1), Job(SETTINGS, 13)]
    with pytest.raises(RobotSdkError, match="bad luck"):
        list(run_many(jobs, processes=1, store=store))
    assert len(store.read_text().splitlines()) == 1


def test_a_process_that_dies_is_told() -> None:
    with pytest.raises(RobotSdkError, match="ended with status -9"):
        list(run_many([Job(SETTINGS, 666)], processes=1))


def test_an_interrupt_gives_partial_results_and_is_passed_on(tmp_path: Path) -> None:
    store = tmp_path / "store.jsonl"
    jobs = [Job(SETTINGS, 99), Job(SETTINGS, 1)]

    def interrupt(progress: Progress) -> None:
        if progress.left_s is not None:  # the run is on
            raise KeyboardInterrupt

    results: list[ReplayResult] = []
    with pytest.raises(KeyboardInterrupt):
        results.extend(run_many(jobs, processes=1, store=store, on_progress=interrupt))
    assert seeds(results) == [99]
    assert results[0].is_partial
    again = run_many([Job(SETTINGS, 1)], processes=1, store=store)
    assert seeds(list(again)) == [1]


def test_bad_settings_are_refused_before_anything_runs() -> None:
    jobs = [Job(SETTINGS, 1), Job(ReplaySettings.sustained(0), 2)]
    with pytest.raises(InvalidArgumentError, match="empty"):
        run_many(jobs, processes=1)


def test_an_unknown_policy_is_refused_before_anything_runs() -> None:
    settings = ReplaySettings.sustained(2, admission=AdmissionChoice("magic"))
    with pytest.raises(InvalidArgumentError, match="magic"):
        run_many([Job(settings, 1)], processes=1)


def test_an_unknown_cost_table_is_refused_before_anything_runs() -> None:
    with pytest.raises(InvalidArgumentError, match="cost"):
        run_many([Job(ReplaySettings.sustained(2, cost="nix"), 1)], processes=1)


def test_the_studys_engine_without_a_folder_is_refused_with_the_way_to_get_it() -> None:
    with pytest.raises(InvalidArgumentError, match="fetch_study_engine"):
        run_many([Job(STUDY, 1)], processes=1)


def test_an_interrupt_before_a_process_has_loaded_says_nothing_of_it(
    capfd: pytest.CaptureFixture[str],
) -> None:
    def interrupt(_progress: Progress) -> None:
        raise KeyboardInterrupt

    jobs = [Job(SETTINGS, 98), Job(SETTINGS, 1)]
    with pytest.raises(KeyboardInterrupt):
        list(run_many(jobs, processes=1, on_progress=interrupt))
    assert capfd.readouterr().err == ""


def test_more_processes_than_any_machine_has_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"processes.*256"):
        run_many([Job(SETTINGS, 1)], processes=1_000_000)


def test_generated_episodes_that_do_not_fit_the_pool_are_refused_before_anything_runs() -> None:
    settings = ReplaySettings.sustained(2, engine=EngineChoice(pool_blocks=10))
    with pytest.raises(InvalidArgumentError, match="does not fit into the engine's pool"):
        run_many([Job(settings, 1)], processes=1)


def test_a_mix_that_is_no_name_and_no_file_is_refused_with_the_names(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for mix in ("al", "", str(tmp_path), str(tmp_path / "pipe")):
        settings = ReplaySettings.sustained(2, workload=WorkloadChoice(mix))
        with pytest.raises(InvalidArgumentError, match="turning"):
            run_many([Job(settings, 1)], processes=1)


@pytest.mark.parametrize(
    "offload", [(-1, 100.0, 51.4), (5, 0.0, 51.4), (5, float("nan"), 51.4), (5, 100.0, -1.0)]
)
def test_host_memory_that_cannot_be_is_refused_before_anything_runs(
    offload: tuple[int, float, float],
) -> None:
    settings = ReplaySettings.sustained(2, offload=OffloadChoice(*offload))
    with pytest.raises(InvalidArgumentError, match="out of range"):
        run_many([Job(settings, 1)], processes=1)


def test_no_process_is_left_behind_when_the_reader_stops_early() -> None:
    runs = run_many([Job(SETTINGS, 1), Job(SETTINGS, 99)], processes=2)
    process_id = int(next(runs).wall_s)
    runs.close()  # type: ignore[attr-defined]
    with pytest.raises(ProcessLookupError):
        os.kill(process_id, 0)


def test_the_fake_results_can_be_kept() -> None:
    assert ReplayResult.from_json(result(3, "x").to_json()) == result(3, "x")


def pids(results: list[ReplayResult]) -> set[float]:
    return {result.wall_s for result in results}


def is_running(pid: float) -> bool:
    return Path(f"/proc/{int(pid)}").exists()


def test_processes_of_a_pool_serve_one_number_of_runs_after_the_other_and_end_with_it() -> None:
    with WorkerPool() as pool:
        first = list(run_many([Job(SETTINGS, 1), Job(SETTINGS, 2)], processes=2, pool=pool))
        again = list(run_many([Job(SETTINGS, 3), Job(SETTINGS, 4)], processes=2, pool=pool))
        assert all(is_running(pid) for pid in pids(first))
        assert pids(again) <= pids(first)
    assert not any(is_running(pid) for pid in pids(first))


def test_a_process_of_a_pool_makes_way_for_one_of_another_version(study_folder: Path) -> None:
    with WorkerPool() as pool:
        runs = [
            list(run_many([Job(settings, 1)], processes=1, study_folder=study_folder, pool=pool))
            for settings in (SETTINGS, STUDY)
        ]
        assert [run[0].engine_version for run in runs] == ["installed", "study"]
        assert not is_running(runs[0][0].wall_s)


def test_a_process_that_failed_or_died_is_not_used_again() -> None:
    with WorkerPool() as pool:
        with pytest.raises(RobotSdkError, match="bad luck"):
            list(run_many([Job(SETTINGS, 13)], processes=1, pool=pool))
        first = list(run_many([Job(SETTINGS, 1)], processes=1, pool=pool))
        os.kill(int(first[0].wall_s), signal.SIGKILL)
        os.waitid(os.P_PID, int(first[0].wall_s), os.WEXITED | os.WNOWAIT)
        again = list(run_many([Job(SETTINGS, 2)], processes=1, pool=pool))
    assert pids(again).isdisjoint(pids(first))
