"""A robot: one process that runs the episodes it is given, one at a time.

Jobs come in as lines of JSON, events go out the same way, so that whoever runs robots needs
neither shared memory nor pickles, and a robot that dies takes nobody with it.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from robot_sdk import telemetry as telemetry_module
from robot_sdk.action_guard import ActionGuard
from robot_sdk.agent import AgentLimits
from robot_sdk.client import Client, connect
from robot_sdk.clock import SYSTEM_CLOCK
from robot_sdk.episode import QueueUpdate
from robot_sdk.errors import RobotSdkError
from robot_sdk.loop_state import LoopState
from robot_sdk.messages import ImagePart
from robot_sdk.runner import EpisodeOptions, run_episode
from robot_sdk.running_episode import RunningEpisode
from robot_sdk.telemetry import Telemetry, attributes
from robot_sdk.tools import ToolRegistry
from sim.cli.plan import Job, RobotSettings
from sim.cli.record import EpisodeRecord, failed_record, record_of
from sim.libero.env import ACTION_DIM, LiberoEnv
from sim.libero.judge import settle_and_judge
from sim.libero.recording import Recorder, write_contact_sheet, write_video
from sim.libero.robot import EMBODIMENT, LiberoRobot
from sim.libero.suites import suite_step_limit
from sim.libero.tools import POLICY, LiberoTools

_PROGRESS_INTERVAL_S = 1.0
#: For a running episode to see that the client was closed, and to end its spans.
_LEAVE_TIMEOUT_S = 3.0


class Events:
    """Writes events, one line each, from any thread."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()

    def send(self, event: str, **values: Any) -> None:
        """Write one event."""
        line = json.dumps({"event": event, **values})
        with self._lock:
            self._stream.write(line + "\n")
            self._stream.flush()


class RobotProcess:
    """Runs jobs. Keeps the environment as long as the task stays the same.

    Args:
        robot_id: Name of this robot and of its trace file.
        settings: How to run.
        events: Where to tell about it.
    """

    def __init__(self, robot_id: str, settings: RobotSettings, events: Events) -> None:
        self._robot_id = robot_id
        self._settings = settings
        self._events = events
        self._telemetry: Telemetry = telemetry_module.start(
            robot_id, run_folder=settings.run_folder
        )
        self._client: Client | None = None
        self._env: LiberoEnv | None = None
        self._state = LoopState()
        threading.Thread(target=self._report_progress, name="progress", daemon=True).start()

    def run(self, job: Job) -> EpisodeRecord:
        """One episode. Never raises an `Exception`: what went wrong is the record's reason."""
        started_s = SYSTEM_CLOCK.now_s()
        self._state = LoopState()
        try:
            return self._run(job, started_s)
        except RobotSdkError as error:
            reason = type(error).__name__.removesuffix("Error")
            return failed_record(job, _snake(reason), str(error), SYSTEM_CLOCK.now_s() - started_s)
        except Exception as error:  # one broken episode must not end the run
            logging.getLogger(__name__).exception("episode %s broke", job.label)
            text = f"{type(error).__name__}: {error}"
            return failed_record(job, "robot_error", text, SYSTEM_CLOCK.now_s() - started_s)

    def break_off(self) -> None:
        """End the episode that runs, for the server too. `run`, in another thread, then returns."""
        if self._client is not None:
            self._client.close()

    def free_world(self) -> None:
        """No episode follows. For the thread that ran them."""
        if self._env is not None:
            self._env.close()

    def close(self) -> None:
        """Leave the server and write what is left of the traces."""
        self.break_off()
        self._telemetry.shutdown()

    def _run(self, job: Job, started_s: float) -> EpisodeRecord:
        settings = self._settings
        env = self._environment(job)
        if self._client is None:
            self._client = connect(settings.target, telemetry=self._telemetry)
        recorder = Recorder(env, lambda: self._state.tool) if settings.with_video else None
        robot = LiberoRobot(env, on_step=recorder.on_step if recorder else None)

        def tools(running: RunningEpisode) -> ToolRegistry:
            self._events.send("admitted", episode_id=running.episode.id)
            return ToolRegistry(LiberoTools(robot, running, with_images=settings.with_images))

        def first_images(running: RunningEpisode) -> Sequence[ImagePart]:
            picture = running.call(lambda _: LiberoTools(robot, running).picture("agentview"))
            return [picture]

        if recorder is not None:
            recorder.take(0)
        result = run_episode(
            self._client,
            robot,
            tools,
            env.language,
            self._options(job),
            first_images=first_images if settings.with_images else None,
            judge=lambda _: settle_and_judge(robot),
            on_state=self._keep_state,
        )
        files = self._write_film(job, recorder, env.language)
        return record_of(job, robot, result, SYSTEM_CLOCK.now_s() - started_s, files)

    def _options(self, job: Job) -> EpisodeOptions:
        settings = self._settings
        max_steps = settings.max_steps
        if settings.suite_limits:
            max_steps = min(max_steps, suite_step_limit(job.suite))
        return EpisodeOptions(
            robot_id=self._robot_id,
            embodiment=EMBODIMENT,
            run_id=settings.run_id,
            task_family=job.suite,
            seed=settings.seed,
            labels={
                "suite": job.suite,
                "task": str(job.task_index),
                "init": str(job.init_index),
            },
            policies=(POLICY,),
            pace=settings.pace,
            limits=AgentLimits(max_env_steps=max_steps),
            guard=ActionGuard([-1.0] * ACTION_DIM, [1.0] * ACTION_DIM),
            allow_privileged=True,
            on_queued=self._tell_queue,
            span_attributes={
                attributes.SUITE: job.suite,
                attributes.TASK_INDEX: job.task_index,
                attributes.INIT_INDEX: job.init_index,
            },
        )

    def _environment(self, job: Job) -> LiberoEnv:
        env = self._env
        settings = self._settings
        if env is not None and (env.task.suite, env.task.index) == (job.suite, job.task_index):
            env.reset(job.init_index, settings.seed)
            return env
        if env is not None:
            env.close()
            self._env = None
        needs_gl = settings.with_images or settings.with_video
        self._env = LiberoEnv(
            job.suite,
            job.task_index,
            job.init_index,
            settings.seed,
            gl="auto" if needs_gl else "off",
        )
        return self._env

    def _write_film(self, job: Job, recorder: Recorder | None, title: str) -> dict[str, str]:
        if recorder is None:
            return {}
        folder = Path(self._settings.run_folder)
        video = write_video(recorder.frames, folder / job.label)
        sheet = write_contact_sheet(recorder.frames, folder / f"{job.label}.sheet.png", title)
        return {"video": str(video), "contact_sheet": str(sheet)}

    def _keep_state(self, state: LoopState) -> None:
        self._state = state

    def _tell_queue(self, update: QueueUpdate) -> None:
        self._events.send(
            "queued",
            position=update.position,
            num_waiting=update.num_waiting,
            expected_wait_s=update.expected_wait_s,
            reason=update.reason,
        )

    def _report_progress(self) -> None:
        while True:
            state = self._state
            self._events.send("progress", step=state.step, tool=state.tool)
            SYSTEM_CLOCK.sleep_until(SYSTEM_CLOCK.now_s() + _PROGRESS_INTERVAL_S)


def main(robot_id: str, settings_json: str) -> int:
    """Read jobs from standard input until it ends; events go to standard output."""
    telemetry_module.exit_on_sigterm()
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    # Libraries print; standard output belongs to the events alone.
    stream = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    events = Events(stream)
    robot = RobotProcess(robot_id, RobotSettings(**json.loads(settings_json)), events)
    jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
    # Episodes run in a thread, because the exception of SIGTERM comes in this one. Amid a call of
    # gRPC it can leave one of gRPC's locks taken, and nothing would end this process by itself.
    worker = threading.Thread(target=_work, args=(robot, jobs, events), name="jobs", daemon=True)
    try:
        worker.start()
        for line in sys.stdin:
            jobs.put(Job(**json.loads(line)))
        jobs.put(None)
        worker.join()
    finally:
        robot.break_off()
        jobs.put(None)
        worker.join(_LEAVE_TIMEOUT_S)
        robot.close()
    return 0


def _work(robot: RobotProcess, jobs: queue.SimpleQueue[Job | None], events: Events) -> None:
    try:
        while (job := jobs.get()) is not None:
            events.send("started")
            record = robot.run(job)
            events.send("done", record=record.to_json())
        robot.free_world()
    except BrokenPipeError:
        _end_this_process()  # nobody listens any more
    except BaseException:
        logging.getLogger(__name__).exception("this robot cannot go on")
        _end_this_process()


def _end_this_process() -> None:
    """From any thread; without effect where the end has begun."""
    os.kill(os.getpid(), signal.SIGTERM)


def _snake(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
