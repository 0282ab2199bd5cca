"""What a run is asked to do: which episodes, and how."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from robot_sdk.action_source import Pace
from robot_sdk.errors import InvalidArgumentError
from sim.libero.suites import NUM_TASKS, SUITES, check_suite

#: Every task of every suite comes with this many fixed initial states.
NUM_INITS = 50
_MOST_DIGITS = 20


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


def parse_indices(field: str, text: str, count: int) -> list[int]:
    """Indices below `count` from text like "0-4,7"; in order, each once.

    Raises:
        InvalidArgumentError: Not such a text, or an index out of range.
    """
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise InvalidArgumentError(
                "not a list of indices", field=field, value=text, allowed=["0-9", "0,3,5-7"]
            )
        # A number of thousands of digits cannot even be read.
        is_short = max(len(first), len(last)) <= _MOST_DIGITS
        low, high = (int(first), int(last or first)) if is_short else (0, count)
        if low > high or high >= count:
            raise InvalidArgumentError(
                "no such index", field=field, value=part.strip(), allowed=[f"0 to {count - 1}"]
            )
        found.update(range(low, high + 1))
    return sorted(found)


__all__ = ["NUM_INITS", "SUITES", "Job", "RobotSettings", "parse_indices", "plan_jobs"]
