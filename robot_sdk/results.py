"""What is left when an episode is over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: How an episode ended: the task was done; it was not; or it was broken off (exception, e-stop,
#: lost episode), which says nothing about the task.
Outcome = Literal["success", "failure", "aborted"]


@dataclass(frozen=True)
class ClockSample:
    """The three clocks of one turn. All on the robot's monotonic clock.

    Attributes:
        turn_index: Counts from 0.
        brain_s: One Decide as the robot saw it, in seconds.
        gap_steps: Control steps with a tool running, holds included, between the previous answer
            and this question. None for the first turn, which has no interval before it.
        gap_wall_s: The same interval on the wall clock, seconds.
    """

    turn_index: int
    brain_s: float
    gap_steps: int | None = None
    gap_wall_s: float | None = None


@dataclass(frozen=True)
class Verdict:
    """What the world itself says about the task, whatever the brain believes."""

    success: bool
    reason: str = ""


@dataclass(frozen=True)
class AgentEnd:
    """Why the agent loop stopped.

    Attributes:
        outcome: By the brain's own word, or "failure" at a limit, or "aborted".
        reason: One word for tables, for example "finished" or "max_turns".
        detail: The same for a person: the brain's summary, or the error's text.
        turns: Turns that were decided.
        invalid_calls: Tool calls that were refused unrun.
        samples: One per decided turn.
        error: The exception that broke the episode off, if any.
    """

    outcome: Outcome
    reason: str
    detail: str
    turns: int
    invalid_calls: int
    samples: tuple[ClockSample, ...]
    error: Exception | None = None


@dataclass(frozen=True)
class EpisodeResult:
    """One finished episode. Steps are control steps, times are seconds.

    Attributes:
        success: The task was done. The robot's own judge decides if there is one, else the brain.
        outcome: What the server was told.
        reason: One word for tables.
        detail: The same for a person.
        episode_id: The server's name of the episode; empty if it was never admitted.
        env_steps: Steps during which a tool was running, holds included; idle steps are not
            among them.
        policy_steps: Those of them during which a policy was in charge, holds included.
        scripted_steps: Those during which scripted motion was.
        acted_steps: Steps with an action, not a hold.
        starved_ticks: Steps held because a running policy had no valid row.
        start_wait_ticks: Steps held before a policy's first chunk.
        idle_ticks: Steps held while no tool was running.
        overrun_ticks: Steps that were skipped because the loop was late.
        chunks: Chunks that arrived from policies.
        queued_s: Time at the door.
        duration_s: From admission to the end.
    """

    success: bool
    outcome: Outcome
    reason: str
    detail: str
    episode_id: str
    turns: int
    invalid_calls: int
    env_steps: int
    policy_steps: int
    scripted_steps: int
    acted_steps: int
    starved_ticks: int
    start_wait_ticks: int
    idle_ticks: int
    overrun_ticks: int
    chunks: int
    queued_s: float
    duration_s: float
    samples: tuple[ClockSample, ...]
    error: Exception | None = None
