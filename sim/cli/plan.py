"""What a run is asked to do: which episodes, and how."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from robot_sdk.action_source import Pace
from sim.cli.indices import parse_indices
from sim.libero.suites import NUM_TASKS, check_suite

#: Every task of every suite comes with this many fixed initial states.
NUM_INITS = 50


@dataclass(frozen=True, order=True)
class Job:
    """One episode to run."""

    suite: str
    task_index: int
    init_index: int

    @property
    def label(self) -> str:
        """Short name for progress lines and file names."""
        return f"{self.suite.removeprefix('libero_')}-{self.task_index}-{self.init_index}"


@dataclass(frozen=True)
class RobotSettings:
    """What every robot process has to know. Travels as JSON.

    Attributes:
        target: The server, "host:port".
        max_steps: Control steps with a tool running after which an episode is a failure.
        with_images: Pictures for the brain.
        with_video: Film every episode.
        run_folder: Where traces and films go.
        suite_limits: Also apply LIBERO's own step limits.
    """

    target: str
    run_id: str
    seed: int
    pace: Pace
    max_steps: int
    suite_limits: bool
    with_images: bool
    with_video: bool
    run_folder: str

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def plan_jobs(suite: str, tasks: str, inits: str) -> list[Job]:
    """The episodes of a run, all initial states of a task together.

    Args:
        suite: Suite name.
        tasks: Task indices as in "0-9" or "0,3,5-7".
        inits: Initial states, written the same way.

    Raises:
        InvalidArgumentError: Unknown suite, task or initial state; says what there is.
    """
    check_suite(suite)
    task_indices = parse_indices("tasks", tasks, NUM_TASKS)
    init_indices = parse_indices("inits", inits, NUM_INITS)
    return [Job(suite, task, init) for task in task_indices for init in init_indices]
