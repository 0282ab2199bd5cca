from __future__ import annotations

import pytest

from robot_sdk.errors import InvalidArgumentError
from sim.cli.plan import Job, plan_jobs


def test_all_initial_states_of_a_task_come_together() -> None:
    jobs = plan_jobs("libero_goal_swap", "1,3", "0-1")

    assert [(job.task_index, job.init_index) for job in jobs] == [(1, 0), (1, 1), (3, 0), (3, 1)]
    assert jobs[0] == Job("libero_goal_swap", 1, 0)
    assert jobs[0].label == "goal_swap-1-0"


def test_unknown_suite_lists_the_suites_and_the_nearest() -> None:
    with pytest.raises(InvalidArgumentError, match="did you mean 'libero_object_swap'"):
        plan_jobs("libero_objekt_swap", "0", "0")


def test_unknown_initial_state_names_the_range() -> None:
    with pytest.raises(InvalidArgumentError, match=r"inits.*0 to 49"):
        plan_jobs("libero_object_swap", "0", "50")
