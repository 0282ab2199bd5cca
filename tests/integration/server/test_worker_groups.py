"""What a worker started does not outlive it, whoever dies."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from server.worker.framing import Frame
from server.worker.process import WorkerProcess
from tests.integration.server.harness import REPOSITORY, wait_until

WORKER = "tests.fakes.worker_with_child"
#: Starts the worker, prints the ids of worker and grandchild, and waits to be killed.
FRONT_END = f"""
import asyncio
from server.worker.process import WorkerProcess

async def main():
    worker = None
    def told(frame):
        print(worker.pid, frame.header["child"], flush=True)
    worker = await WorkerProcess.start("{WORKER}", [], told, lambda code: None)
    await asyncio.sleep(600)

asyncio.run(main())
"""


def is_gone(pid: int) -> bool:
    """Not there, or dead and waiting for somebody to take notice."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


async def _started(events: asyncio.Queue[Frame | int | None]) -> tuple[WorkerProcess, int]:
    worker = await WorkerProcess.start(WORKER, [], events.put_nowait, events.put_nowait)
    frame = await asyncio.wait_for(events.get(), 30)
    assert isinstance(frame, Frame)
    return worker, frame.header["child"]


@pytest.mark.faultinjection
def test_the_processes_of_a_killed_worker_end_with_it() -> None:
    async def run() -> int:
        events: asyncio.Queue[Frame | int | None] = asyncio.Queue()
        worker, child = await _started(events)
        os.kill(worker.pid, signal.SIGKILL)
        assert await asyncio.wait_for(events.get(), 30) == -signal.SIGKILL
        return child

    child = asyncio.run(run())
    wait_until(lambda: is_gone(child))


def test_the_processes_of_a_worker_that_leaves_end_too() -> None:
    async def run() -> int:
        events: asyncio.Queue[Frame | int | None] = asyncio.Queue()
        worker, child = await _started(events)
        await worker.stop(10.0)
        return child

    child = asyncio.run(run())
    wait_until(lambda: is_gone(child))


@pytest.mark.faultinjection
def test_a_killed_front_end_takes_its_workers_processes_with_it() -> None:
    front_end = subprocess.Popen(
        [sys.executable, "-c", FRONT_END], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
    )
    assert front_end.stdout is not None
    worker, child = map(int, front_end.stdout.readline().split())
    assert not is_gone(worker)
    assert not is_gone(child)

    front_end.kill()
    front_end.wait()
    front_end.stdout.close()

    wait_until(lambda: is_gone(worker) and is_gone(child))
