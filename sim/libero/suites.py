"""The LIBERO-PRO task suites by name: their tasks, initial states and step limits."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from robot_sdk.errors import InvalidArgumentError, nearest
from sim.libero.simulator import load_simulator

#: LIBERO's own episode limits in control steps at 20 Hz, by suite family (the limits that the
#: published LIBERO evaluations use).
_STEP_LIMITS = {"object": 280, "spatial": 220, "goal": 300, "10": 520}

#: Base suites, then the same tasks with the objects' places exchanged.
SUITES: tuple[str, ...] = tuple(
    f"libero_{family}{variant}" for variant in ("", "_swap") for family in _STEP_LIMITS
)

#: Every suite has ten tasks.
NUM_TASKS = 10


@dataclass(frozen=True)
class Task:
    """One task of a suite.

    Attributes:
        suite: Suite name, one of `SUITES`.
        index: Position in the suite, 0-9.
        name: LIBERO's name of the task.
        language: The instruction in plain words.
        bddl_path: The file that describes scene and goal.
        init_states_path: The file with the fixed initial states.
    """

    suite: str
    index: int
    name: str
    language: str
    bddl_path: Path
    init_states_path: Path


def suite_step_limit(suite: str) -> int:
    """LIBERO's own limit of control steps for an episode of `suite`."""
    check_suite(suite)
    return _STEP_LIMITS[suite.split("_")[1]]


def find_task(suite: str, task_index: int) -> Task:
    """The task number `task_index` of `suite`.

    Raises:
        InvalidArgumentError: Unknown suite or task index; lists what there is.
    """
    check_suite(suite)
    simulator = load_simulator()
    tasks = list(simulator.task_maps[suite].values())
    _check_index("task_index", task_index, len(tasks))
    found = tasks[task_index]
    bddl_dir = Path(simulator.resource_path("bddl_files"))
    init_dir = Path(simulator.resource_path("init_states"))
    return Task(
        suite=suite,
        index=task_index,
        name=found.name,
        language=found.language,
        bddl_path=bddl_dir / found.problem_folder / found.bddl_file,
        init_states_path=init_dir / found.problem_folder / found.init_states_file,
    )


def load_init_states(task: Task) -> NDArray[np.float64]:
    """All fixed initial states of a task, shape (num_inits, 1 + nq + nv), float64.

    The simulator package stores them as plain `.npz` arrays read with `allow_pickle=False`, so
    neither torch nor pickle takes part, and `torch.load` never has to be patched.
    """
    states = load_simulator().load_initial_states(task.init_states_path)
    return np.asarray(states, dtype=np.float64)


def pick_init_state(states: NDArray[np.float64], init_index: int) -> NDArray[np.float64]:
    """Row `init_index` of the initial states, or InvalidArgumentError naming the range."""
    _check_index("init_index", init_index, len(states))
    return states[init_index]


def check_suite(suite: str) -> None:
    """Raise InvalidArgumentError, listing the suites, unless `suite` is one of them."""
    if suite not in SUITES:
        close = nearest(str(suite), SUITES, 1)
        raise InvalidArgumentError(
            "unknown suite",
            field="suite",
            value=repr(suite),
            allowed=SUITES,
            hint=f"did you mean {close[0]!r}?" if close else "",
        )


def _check_index(field: str, index: int, count: int) -> None:
    is_integer = isinstance(index, (int, np.integer)) and not isinstance(index, bool)
    if not is_integer or not 0 <= index < count:
        close = min(max(int(index), 0), count - 1) if is_integer else 0
        raise InvalidArgumentError(
            f"no such {field}",
            field=field,
            value=repr(index),
            allowed=[f"integers 0 to {count - 1}"],
            hint=f"the nearest is {close}",
        )
