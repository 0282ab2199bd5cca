"""Robots as processes: hands out jobs, gathers events, and replaces robots that die or hang."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from robot_sdk.clock import SYSTEM_CLOCK
from server.launch import with_parent
from server.launch.ending import await_end
from sim.cli.plan import Job, RobotSettings
from sim.cli.record import EpisodeRecord, failed_record

#: A robot that has said nothing at all for so long is dead or stuck in a call that holds the
#: interpreter. Its progress thread speaks once a second.
SILENT_TIMEOUT_S = 120.0
#: A robot with a running tool whose step count has not moved for so long hangs. In lockstep a tool
#: gives up on its own after 60 s without a chunk.
STUCK_TIMEOUT_S = 150.0
_STOP_TIMEOUT_S = 10.0
_POLL_S = 0.5


@dataclass
class Robot:
    """One robot process as the pool sees it."""

    index: int
    process: subprocess.Popen[str]
    job: Job | None = None
    started_s: float = 0.0
    heard_s: float = 0.0
    moved_s: float = 0.0
    step: int = -1
    tool: str = ""
    last_task: tuple[str, int] | None = None
    reader: threading.Thread | None = None

    @property
    def name(self) -> str:
        """Name on progress lines and of its trace."""
        return f"robot-{self.index}"


@dataclass(frozen=True)
class Event:
    """Something a robot said; "ended" when its process has closed its output."""

    robot: Robot
    name: str
    values: dict[str, Any] = field(default_factory=dict)


class RobotPool:
    """Runs jobs on a number of robot processes. A context manager; leaving it ends the robots.

    Args:
        settings: For every robot.
        num_robots: Processes.
        on_event: Told everything the robots say, for progress lines.
        command: Command line of a robot, by its name; None: `sim.cli.robot_process`.
        silent_timeout_s, stuck_timeout_s: After which a robot is given up.
    """

    def __init__(
        self,
        settings: RobotSettings,
        num_robots: int,
        on_event: Callable[[Event], None] = lambda event: None,
        *,
        command: Callable[[str], Sequence[str]] | None = None,
        silent_timeout_s: float = SILENT_TIMEOUT_S,
        stuck_timeout_s: float = STUCK_TIMEOUT_S,
    ) -> None:
        self._settings = settings
        self._num_robots = num_robots
        self._on_event = on_event
        self._command = command or self._robot_command
        self._silent_timeout_s = silent_timeout_s
        self._stuck_timeout_s = stuck_timeout_s
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._robots: dict[int, Robot] = {}
        self._next_index = 0

    def __enter__(self) -> RobotPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def running_jobs(self) -> list[Job]:
        """Episodes that have begun and not ended."""
        return [robot.job for robot in self._robots.values() if robot.job is not None]

    @property
    def robots(self) -> tuple[Robot, ...]:
        """The robots that run at present."""
        return tuple(self._robots.values())

    def run(self, jobs: Iterable[Job]) -> Iterator[EpisodeRecord]:
        """Run all jobs; yields each record as it comes. Stop iterating to leave the rest undone."""
        waiting = list(jobs)
        for _ in range(min(self._num_robots, len(waiting))):
            self._assign(self._start(), waiting)
        while any(robot.job is not None for robot in self._robots.values()):
            record = self._next_record(waiting)
            if record is not None:
                yield record

    def close(self) -> None:
        """End all robots. Idle ones end by themselves; what does not end in time is killed."""
        robots = list(self._robots.values())
        self._robots.clear()
        for robot in robots:
            self._dismiss(robot)
            if robot.job is not None:
                robot.process.terminate()
        deadline_s = SYSTEM_CLOCK.now_s() + _STOP_TIMEOUT_S
        for robot in robots:
            self._reap(robot, max(0.0, deadline_s - SYSTEM_CLOCK.now_s()))

    def _reap(self, robot: Robot, timeout_s: float) -> int:
        """Wait for the process, kill it if it is late, and close its pipes; its exit status."""
        status = await_end(robot.process, timeout_s)
        self._dismiss(robot)
        if robot.reader is not None:
            robot.reader.join(_STOP_TIMEOUT_S)
        return status

    def _start(self) -> Robot:
        index = self._next_index
        self._next_index += 1
        folder = Path(self._settings.run_folder)
        # Many robots on few cores: BLAS threads of each would only fight.
        environment = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", **os.environ}
        with (folder / f"robot-{index}.log").open("w") as log:
            process = subprocess.Popen(
                self._command(f"robot-{index}"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment,
                start_new_session=True,  # an interrupt from the keyboard is for the parent alone
            )
        robot = Robot(index, process)
        self._robots[index] = robot
        robot.reader = threading.Thread(target=self._read, args=(robot,), daemon=True)
        robot.reader.start()
        return robot

    def _robot_command(self, name: str) -> Sequence[str]:
        settings = json.dumps(self._settings.to_json())
        return with_parent.command(["-m", "sim.cli.robot_process", name, settings])

    def _read(self, robot: Robot) -> None:
        assert robot.process.stdout is not None
        with robot.process.stdout as lines:
            for line in lines:
                try:
                    values = json.loads(line)
                    self._events.put(Event(robot, str(values.pop("event")), values))
                except (ValueError, KeyError):
                    continue  # half a line of a process that was killed
        self._events.put(Event(robot, "ended"))

    def _assign(self, robot: Robot, waiting: list[Job]) -> None:
        """Give the robot its next job; one of the task it has built already, if there is one."""
        if not waiting:
            self._dismiss(robot)
            return
        same_task = [job for job in waiting if (job.suite, job.task_index) == robot.last_task]
        busy = {(job.suite, job.task_index) for job in self.running_jobs}
        other = [job for job in waiting if (job.suite, job.task_index) not in busy]
        job = (same_task or other or waiting)[0]
        waiting.remove(job)
        robot.job = job
        robot.last_task = (job.suite, job.task_index)
        robot.started_s = robot.heard_s = robot.moved_s = SYSTEM_CLOCK.now_s()
        robot.step, robot.tool = -1, ""
        assert robot.process.stdin is not None
        try:
            robot.process.stdin.write(json.dumps(asdict(job)) + "\n")
            robot.process.stdin.flush()
        except BrokenPipeError:
            pass  # its "ended" event is on the way

    def _dismiss(self, robot: Robot) -> None:
        """No more work: the robot ends by itself when its input ends."""
        assert robot.process.stdin is not None
        try:
            robot.process.stdin.close()
        except BrokenPipeError:
            pass

    def _next_record(self, waiting: list[Job]) -> EpisodeRecord | None:
        try:
            event = self._events.get(timeout=_POLL_S)
        except queue.Empty:
            return self._check_hung(waiting)
        robot = event.robot
        if robot.index not in self._robots:
            return None
        self._note(event)
        self._on_event(event)
        if event.name == "done":
            robot.job = None
            self._assign(robot, waiting)
            return EpisodeRecord(**event.values["record"])
        if event.name == "ended":
            return self._lose(
                robot, waiting, "robot_crashed", f"exit status {robot.process.wait()}"
            )
        return self._check_hung(waiting)

    def _note(self, event: Event) -> None:
        robot = event.robot
        robot.heard_s = SYSTEM_CLOCK.now_s()
        step, tool = event.values.get("step", robot.step), event.values.get("tool", robot.tool)
        if (step, tool) != (robot.step, robot.tool) or not tool:
            robot.moved_s = robot.heard_s
        robot.step, robot.tool = step, tool

    def _check_hung(self, waiting: list[Job]) -> EpisodeRecord | None:
        now_s = SYSTEM_CLOCK.now_s()
        for robot in list(self._robots.values()):
            if robot.job is None:
                continue
            if now_s - robot.heard_s > self._silent_timeout_s:
                text = f"{robot.name} said nothing for {now_s - robot.heard_s:.0f} s"
                return self._lose(robot, waiting, "robot_hung", text)
            if robot.tool and now_s - robot.moved_s > self._stuck_timeout_s:
                text = (
                    f"{robot.name} stood at step {robot.step} of tool {robot.tool!r} for "
                    f"{now_s - robot.moved_s:.0f} s"
                )
                return self._lose(robot, waiting, "robot_hung", text)
        return None

    def _lose(
        self, robot: Robot, waiting: list[Job], reason: str, detail: str
    ) -> EpisodeRecord | None:
        """A robot is gone: note its episode, and replace it if there is work left."""
        del self._robots[robot.index]
        if detail:
            robot.process.kill()
        status = self._reap(robot, _STOP_TIMEOUT_S)
        detail = detail or f"exit status {status}"
        job, robot.job = robot.job, None
        if job is None:
            return None
        if waiting:
            self._assign(self._start(), waiting)
        log = Path(self._settings.run_folder) / f"{robot.name}.log"
        detail = f"{detail}, last at step {robot.step} in {robot.tool or 'no tool'}; see {log}"
        return failed_record(job, reason, detail, SYSTEM_CLOCK.now_s() - robot.started_s)
