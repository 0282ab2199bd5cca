"""Many runs at once, each version of vLLM in processes of its own."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import queue
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from robot_sdk.clock import SYSTEM_CLOCK
from robot_sdk.errors import InvalidArgumentError, RobotSdkError
from server.capacity.engine import EngineSettings, study_version
from server.capacity.engine import library as vllm_library
from server.core.admission import build_policy
from server.launch import with_parent
from server.launch.ending import end_process
from sim.files import is_file
from sim.fleet.brain import cost_table
from sim.fleet.brain.offload import HostMemory
from sim.fleet.replay.checks import check_settings, check_traces, engine_settings
from sim.fleet.replay.code_digest import code_digest
from sim.fleet.replay.result import ReplayResult
from sim.fleet.replay.settings import ReplaySettings
from sim.fleet.replay.store import ResultStore
from sim.fleet.workload import mixes

#: Run by the processes.
WORKER_MODULE = "sim.fleet.replay.worker"
MOST_PROCESSES = 256
#: For a worker to give what it has after an interrupt, and to end.
_STOP_TIMEOUT_S = 10.0
_POLL_S = 0.5


@dataclass(frozen=True)
class Job:
    """One run."""

    settings: ReplaySettings
    seed: int

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"settings": self.settings.to_json(), "seed": self.seed}


@dataclass(frozen=True)
class Progress:
    """How far a number of runs is.

    Attributes:
        done: Of `total`, those included that were kept from an earlier time (`reused`).
        left_s: Estimate from virtual time so far; None: nothing has moved yet.
    """

    done: int
    total: int
    reused: int
    elapsed_s: float
    left_s: float | None

    def __str__(self) -> str:
        reused = f", {self.reused} kept from before" if self.reused else ""
        left = "" if self.left_s is None else f", about {self.left_s:.0f} s left"
        return f"{self.done} of {self.total} runs{reused}, {self.elapsed_s:.0f} s{left}"


def run_many(
    jobs: Sequence[Job],
    *,
    processes: int,
    study_folder: Path | None = None,
    store: Path | None = None,
    pool: WorkerPool | None = None,
    on_result: Callable[[Job, ReplayResult], None] | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Iterator[ReplayResult]:
    """Run all jobs; yields their results in the jobs' order.

    Args:
        jobs: In any mixture of versions and lengths.
        processes: So many at once, 1 to `MOST_PROCESSES`.
        study_folder: Holds the study's vLLM; needed by jobs that ask for it.
        store: Results are kept there and taken from there, if settings, seed, engine version and
            code are the same.
        pool: Its processes are used, and those that are left go back to it; None: of its own.
        on_result: Told each new or kept result as soon as it is there, in any order.
        on_progress: Told at most twice a second.

    Raises:
        InvalidArgumentError: A job's settings are out of range; before anything is run.
        RobotSdkError: A run failed, or a process ended on its own.
        KeyboardInterrupt: It was interrupted; results so far and partial ones have been yielded.
    """
    if not 1 <= processes <= MOST_PROCESSES:
        raise InvalidArgumentError(
            "out of range",
            field="processes",
            value=processes,
            allowed=(f"1 to {MOST_PROCESSES}",),
        )
    keys = _keys(jobs, study_folder)
    kept_results = ResultStore(store)
    kept = kept_results.read(set(keys))
    return _Runs(jobs, keys, kept, kept_results, processes, study_folder, pool).run(
        on_result or (lambda _job, _result: None), on_progress or (lambda _progress: None)
    )


def _keys(jobs: Sequence[Job], study_folder: Path | None) -> list[str]:
    """A name for each job's result; raises InvalidArgumentError for one that cannot be run."""
    versions: dict[str, str] = {}
    keys = []
    file_digest = functools.cache(_file_digest)
    check_workload = functools.cache(_check_workload)
    for job in jobs:
        settings = job.settings
        check_settings(settings, job.seed)
        cost_table.load(settings.cost)
        engine = engine_settings(settings.engine)
        if settings.offload is not None:
            HostMemory(settings.offload, engine)
        mix = settings.workload.mix
        # A file's episodes are the same for each seed; generated ones differ, but not by so much
        # that one of them would fill a pool as long as a context.
        is_generated = mix in mixes.MIXES
        if not is_generated or engine.pool.tokens < engine.max_context_tokens:
            check_workload(mix, job.seed if is_generated else 0, engine)
        policy = build_policy(settings.admission.policy, settings.admission.settings)
        wanted = settings.engine.version
        if wanted not in versions:
            versions[wanted] = _version(wanted, study_folder)
        parts = {
            **job.to_json(),
            "vllm": versions[wanted],
            "code": code_digest(type(policy).__module__, settings.action is not None),
            "files": [file_digest(settings.workload.mix), file_digest(settings.cost)],
        }
        keys.append(hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest())
    return keys


def _check_workload(mix: str, seed: int, engine: EngineSettings) -> None:
    # Processes read it as well, and the result is named by its content: a pipe gives that once.
    if mix not in mixes.MIXES and not is_file(Path(mix)):
        raise InvalidArgumentError(
            "no such mix, and no such file",
            field="mix",
            value=repr(mix),
            allowed=(*mixes.MIXES, "the path of a trace file"),
        )
    check_traces(mixes.members(mix, seed), engine)


def _version(wanted: str, study_folder: Path | None) -> str:
    if wanted != "study":
        return vllm_library.installed_version()
    if study_folder is None:
        raise InvalidArgumentError(
            "the study's vLLM comes from a folder of its own, and none is given",
            field="study folder",
            value="none",
            hint="make one with: tests/tools/fetch_study_engine.sh out/study-engine",
        )
    study_version.check_folder(study_folder)
    return vllm_library.STUDY_VERSION


def _file_digest(name_or_path: str) -> str:
    path = Path(name_or_path)
    return hashlib.sha256(path.read_bytes()).hexdigest() if is_file(path) else ""


_Events = queue.SimpleQueue[tuple["_Worker", dict[str, Any] | None]]


@dataclass(eq=False)
class _Worker:
    version: str
    process: subprocess.Popen[str]
    events: _Events
    index: int | None = None
    now_s: float = 0.0
    is_loaded: bool = False
    reader: threading.Thread | None = field(default=None, repr=False)


class WorkerPool:
    """Processes that wait for the next `run_many`, since each takes seconds to load vLLM.

    One folder of the study's vLLM serves all that use it. Close it; not safe across threads.
    """

    def __init__(self) -> None:
        self._idle: list[_Worker] = []

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all processes."""
        for worker in self._take():
            _stop(worker)

    def _take(self) -> list[_Worker]:
        workers, self._idle = self._idle, []
        return workers

    def _give(self, worker: _Worker) -> None:
        self._idle.append(worker)


class _Runs:
    """The state of one `run_many`."""

    def __init__(
        self,
        jobs: Sequence[Job],
        keys: Sequence[str],
        kept: dict[str, ReplayResult],
        store: ResultStore,
        processes: int,
        study_folder: Path | None,
        pool: WorkerPool | None,
    ) -> None:
        self._jobs = jobs
        self._keys = keys
        self._store = store
        self._processes = processes
        self._study_folder = study_folder
        self._results = {index: kept[key] for index, key in enumerate(keys) if key in kept}
        self._reused = len(self._results)
        # One version after the other, so that a process seldom has to make way for another.
        todo = [index for index in range(len(jobs)) if index not in self._results]
        versions = list(dict.fromkeys(job.settings.engine.version for job in jobs))
        self._todo = deque(
            sorted(todo, key=lambda index: versions.index(jobs[index].settings.engine.version))
        )
        self._work_s = sum(jobs[index].settings.duration_s for index in todo)
        self._done_s = 0.0
        self._pool = pool
        self._workers: list[_Worker] = []
        self._events: _Events = queue.SimpleQueue()
        self._started_s = SYSTEM_CLOCK.now_s()
        self._told_s = self._started_s

    def run(
        self,
        on_result: Callable[[Job, ReplayResult], None],
        on_progress: Callable[[Progress], None],
    ) -> Iterator[ReplayResult]:
        """See `run_many`."""
        self._on_result, self._on_progress = on_result, on_progress
        for index, result in self._results.items():
            on_result(self._jobs[index], result)
        try:
            self._take_over()
            for index in range(len(self._jobs)):
                try:
                    while index not in self._results:
                        self._advance()
                except KeyboardInterrupt:
                    self._interrupt()
                    left = range(index, len(self._jobs))
                    yield from (self._results[late] for late in left if late in self._results)
                    raise
                yield self._results[index]
            on_progress(self.progress)
        finally:
            self._close()

    @property
    def progress(self) -> Progress:
        """As of now."""
        elapsed_s = SYSTEM_CLOCK.now_s() - self._started_s
        moved_s = self._done_s + sum(worker.now_s for worker in self._workers)
        left_s = elapsed_s * (self._work_s - moved_s) / moved_s if moved_s else None
        return Progress(len(self._results), len(self._jobs), self._reused, elapsed_s, left_s)

    def _take_over(self) -> None:
        """Use what waits in the pool; a process that has ended meanwhile is left out."""
        for worker in self._pool._take() if self._pool is not None else ():
            if worker.process.poll() is None:
                worker.events = self._events
                self._workers.append(worker)
            else:
                _stop(worker)

    def _advance(self) -> None:
        """Keep all processes busy and take in one piece of news."""
        while self._todo and sum(w.index is not None for w in self._workers) < self._processes:
            self._assign(self._todo.popleft())
        try:
            self._take_in(*self._events.get(timeout=_POLL_S))
        except queue.Empty:
            pass  # time goes on, and with it the estimate
        now_s = SYSTEM_CLOCK.now_s()
        if now_s - self._told_s >= _POLL_S:
            self._told_s = now_s
            self._on_progress(self.progress)

    def _assign(self, index: int) -> None:
        version = self._jobs[index].settings.engine.version
        idle = [worker for worker in self._workers if worker.index is None]
        fitting = [worker for worker in idle if worker.version == version]
        if fitting:
            worker = fitting[0]
        else:
            if len(self._workers) >= self._processes:
                self._workers.remove(idle[0])
                _stop(idle[0])
            worker = self._start(version)
        worker.index, worker.now_s = index, 0.0
        assert worker.process.stdin is not None
        try:
            worker.process.stdin.write(json.dumps(self._jobs[index].to_json()) + "\n")
            worker.process.stdin.flush()
        except BrokenPipeError:
            pass  # that it has ended is on the way

    def _start(self, version: str) -> _Worker:
        arguments = ["-m", WORKER_MODULE]
        if version == "study":
            assert self._study_folder is not None
            arguments.append(str(self._study_folder.resolve()))
        process = subprocess.Popen(
            with_parent.command(arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={"OMP_NUM_THREADS": "1", **os.environ},
            start_new_session=True,  # an interrupt from the keyboard is for this process alone
        )
        worker = _Worker(version, process, self._events)
        worker.reader = threading.Thread(target=_read, args=(worker,), daemon=True)
        worker.reader.start()
        self._workers.append(worker)
        return worker

    def _take_in(self, worker: _Worker, told: dict[str, Any] | None) -> None:
        if told is None:
            if worker not in self._workers:
                return  # it was sent away
            status = worker.process.wait()
            raise RobotSdkError(
                f"a process of the replay ended with status {status}; "
                "what it wrote is above, results so far are kept"
            )
        worker.is_loaded = True
        if "error" in told:
            raise RobotSdkError(told["error"])
        if "now_s" in told:
            worker.now_s = told["now_s"]
        if "result" in told and worker.index is not None:
            self._keep(worker, ReplayResult.from_json(told["result"]))

    def _keep(self, worker: _Worker, result: ReplayResult) -> None:
        index = worker.index
        assert index is not None
        worker.index, worker.now_s = None, 0.0
        job = self._jobs[index]
        self._done_s += job.settings.duration_s
        self._results[index] = result
        self._store.add(self._keys[index], job.to_json(), result)
        self._on_result(job, result)

    def _interrupt(self) -> None:
        """Ask the processes for what they have. One that has not loaded its vLLM yet has nothing,
        and would only tell where in that it was interrupted.
        """
        busy = [worker for worker in self._workers if worker.index is not None and worker.is_loaded]
        for worker in busy:
            worker.process.send_signal(signal.SIGINT)
        deadline_s = SYSTEM_CLOCK.now_s() + _STOP_TIMEOUT_S
        while any(worker.index is not None for worker in busy):
            try:
                worker, told = self._events.get(timeout=max(deadline_s - SYSTEM_CLOCK.now_s(), 0))
            except queue.Empty:
                return
            if told is None:
                worker.index = None
            elif "result" in told:
                self._keep(worker, ReplayResult.from_json(told["result"]))

    def _close(self) -> None:
        workers, self._workers = self._workers, []
        for worker in workers:
            is_idle = worker.index is None and worker.process.poll() is None
            if self._pool is not None and is_idle:
                self._pool._give(worker)
            else:
                _stop(worker)


def _read(worker: _Worker) -> None:
    assert worker.process.stdout is not None
    with worker.process.stdout as lines:
        for line in lines:
            try:
                worker.events.put((worker, json.loads(line)))
            except ValueError:
                continue  # half a line of a process that was killed
    worker.events.put((worker, None))


def _stop(worker: _Worker) -> None:
    process = worker.process
    assert process.stdin is not None
    try:
        process.stdin.close()
    except BrokenPipeError:
        pass
    end_process(process, _STOP_TIMEOUT_S)
    if worker.reader is not None:
        worker.reader.join(_STOP_TIMEOUT_S)
