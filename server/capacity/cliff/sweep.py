"""Runs many cells on one or two versions of vLLM at a time, each in a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from robot_sdk.errors import RobotSdkError
from server.capacity.cliff.protocol import Cell, Outcome
from server.launch import with_parent
from server.launch.ending import end_process

_STOP_TIMEOUT_S = 10.0


@dataclass
class Sweep:
    """The cells of one version.

    Attributes:
        folder: Of the study's vLLM; None: the installed one.
        version: Of vLLM, once it has run.
    """

    cells: Sequence[Cell]
    folder: Path | None = None
    version: str = ""
    outcomes: list[Outcome] = field(default_factory=list)
    error: str = ""


def run_sweeps(sweeps: Sequence[Sweep], on_progress: Callable[[int, int], None]) -> None:
    """Run all of them at the same time; fills in versions and outcomes.

    `on_progress(done, total)` is called from several threads, one at a time.

    Raises:
        RobotSdkError: A version cannot be loaded or a cell cannot be run.
    """
    total = sum(len(sweep.cells) for sweep in sweeps)
    lock = threading.Lock()
    done = 0

    def one_done() -> None:
        nonlocal done
        with lock:
            done += 1
            on_progress(done, total)

    processes = [_start(sweep) for sweep in sweeps]

    def give_up() -> None:
        for process in processes:
            process.terminate()

    try:
        threads = [
            threading.Thread(target=_collect, args=(sweep, process, one_done, give_up), daemon=True)
            for sweep, process in zip(sweeps, processes, strict=True)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()  # a worker that fails ends the others
    finally:
        for process in processes:
            _stop(process)
    errors = [sweep.error for sweep in sweeps if sweep.error]
    if not errors and any(len(sweep.outcomes) != len(sweep.cells) for sweep in sweeps):
        errors = ["a worker ended early; what it wrote is above"]
    if errors:
        raise RobotSdkError(f"the engine without a model: {errors[0]}")


def _start(sweep: Sweep) -> subprocess.Popen[str]:
    arguments = ["-m", "server.capacity.cliff.sweep_worker"]
    if sweep.folder is not None:
        arguments.append(str(sweep.folder.resolve()))
    return subprocess.Popen(
        with_parent.command(arguments),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def _collect(
    sweep: Sweep,
    process: subprocess.Popen[str],
    one_done: Callable[[], None],
    give_up: Callable[[], None],
) -> None:
    assert process.stdout is not None
    # One at a time: with all of them at once neither side would read while both pipes are full.
    cells = iter(sweep.cells)
    _send(process, next(cells, None))
    for line in process.stdout:
        told = json.loads(line)
        if "error" in told:
            sweep.error = told["error"]
        elif "version" in told:
            sweep.version = told["version"]
        else:
            sweep.outcomes.append(
                Outcome(
                    sweep.cells[len(sweep.outcomes)],
                    tuple(told["kept_by_round"]),
                    told["kept"],
                    told["recomputed_tokens"],
                    told["prefill_pieces"],
                )
            )
            one_done()
            _send(process, next(cells, None))
    if len(sweep.outcomes) != len(sweep.cells):
        give_up()


def _send(process: subprocess.Popen[str], cell: Cell | None) -> None:
    """Hand in the next cell; None: there is none, and the worker ends."""
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # it says why on its output
        if cell is None:
            process.stdin.close()
        else:
            process.stdin.write(json.dumps(cell.to_json()) + "\n")
            process.stdin.flush()


def _stop(process: subprocess.Popen[str]) -> None:
    end_process(process, _STOP_TIMEOUT_S)
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
