from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("mujoco")

from sim.paper.cases.seams import Episode, jumps_and_jerks, report_rows, row_of

pytestmark = pytest.mark.sim


def speeds(*values: float) -> np.ndarray:
    """Along one axis, m/s."""
    return np.array([[0.0, value, 0.0] for value in values])


def test_a_jump_is_counted_at_its_seam_and_the_rest_between() -> None:
    jumps, _ = jumps_and_jerks(speeds(0.0, 0.1, 0.2, 0.7, 0.8), [3])
    assert jumps["seam"] == pytest.approx([0.5])
    assert jumps["between"] == pytest.approx([0.1, 0.1, 0.1])


def test_the_jerk_of_a_seam_is_the_larger_of_those_over_it_and_none_of_it_counts_between() -> None:
    _, jerks = jumps_and_jerks(speeds(0.0, 0.0, 0.0, 0.0, 0.5, 0.5, 0.5, 0.5, 0.5), [4])
    assert jerks["seam"] == pytest.approx([0.5 * 400.0])
    assert max(jerks["between"]) == 0.0


def test_even_acceleration_has_no_jerk() -> None:
    _, jerks = jumps_and_jerks(speeds(*np.arange(8) * 0.1), [3])
    assert jerks["seam"] == pytest.approx([0.0], abs=1e-9)
    assert jerks["between"] == pytest.approx([0.0] * len(jerks["between"]), abs=1e-9)


def test_steps_beside_one_without_a_command_are_left_out() -> None:
    jumps, jerks = jumps_and_jerks(speeds(0.0, 0.1, np.nan, 0.9, 1.0), [3])
    assert jumps["seam"] == []
    assert jumps["between"] == pytest.approx([0.1, 0.1])
    assert jerks == {"seam": [], "between": []}


def test_a_row_sums_up_its_episodes() -> None:
    episode = Episode(0, "replace", 2, speeds(0.0, 0.1, 0.2, 0.7, 0.8, 0.9), (3,), 6, True, 1)
    row = row_of([episode, episode])
    assert (row["episodes"], row["picked"], row["seams"], row["starved_ticks"]) == (2, 2, 2, 2)
    assert row["jump_seam_p50"] == pytest.approx(0.5)
    assert (row["merge"], row["delay_ticks"]) == ("replace", 2)
    assert [(r.row, r.quantity, r.ours, r.study) for r in report_rows(row)] == [
        ("replace_delay2", "jump_seam_p50", pytest.approx(0.5), None),
        ("replace_delay2", "jerk_seam_p50", pytest.approx(160.0), None),
    ]
