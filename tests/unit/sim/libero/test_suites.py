"""Suites: all eight load, with every initial state, without pickle or torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sim.libero.suites import NUM_TASKS, SUITES, find_task, load_init_states, suite_step_limit

pytestmark = pytest.mark.sim
_ROOT = Path(__file__).parents[4]


@pytest.mark.parametrize("suite", SUITES)
def test_f5_init_states_of_every_suite_load_without_a_patch(suite: str) -> None:
    for index in range(NUM_TASKS):
        task = find_task(suite, index)
        states = load_init_states(task)
        assert states.ndim == 2
        assert len(states) == 50
        assert states.dtype == np.float64
        assert np.all(np.isfinite(states))
        assert task.bddl_path.is_file()
        assert task.language


def test_f5_torch_takes_no_part_in_loading() -> None:
    code = (
        "from sim.libero.suites import *; import sys;"
        "load_init_states(find_task('libero_10_swap', 0)); print('torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=_ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"


def test_step_limits_are_liberos() -> None:
    limits = {suite: suite_step_limit(suite) for suite in SUITES}
    assert limits["libero_object_swap"] == 280
    assert limits["libero_spatial"] == 220
    assert limits["libero_goal_swap"] == 300
    assert limits["libero_10"] == 520
