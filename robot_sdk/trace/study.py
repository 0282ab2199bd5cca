"""The figures of the study that this system implements, to hold ours against.

Source: the study's three-clock table, 80 trajectories of LIBERO-PRO, 1,862 brain calls, 1,782
intervals, control rate 20 Hz, as restated in "Serving Agentic Robot Fleets". Seconds. None: the
study does not report it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class StudyClock:
    """One line of the study's table, seconds."""

    p50_s: float
    p90_s: float
    max_s: float | None = None


CLOCKS: dict[str, StudyClock] = {
    "brain_latency": StudyClock(7.78, 13.84, 48.26),
    "env_step_gap": StudyClock(1.0, 3.1, 7.5),
    "wall_clock_gap": StudyClock(8.4, 22.2),
    "brain_plus_env_step_gap": StudyClock(9.4, 15.38),
    "brain_plus_wall_clock_gap": StudyClock(17.96, 32.77),
}
#: 688 of 1,782 intervals in which the robot did not move.
ZERO_STEP_INTERVALS = 688
INTERVALS = 1782
