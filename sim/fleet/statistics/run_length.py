"""How long a run has to be before it means anything."""

from __future__ import annotations

from collections.abc import Iterable

from robot_sdk.errors import InvalidArgumentError

#: The study's write-up: long enough for the slowest episode twice ...
SLOWEST_EPISODES = 2.0
#: ... and whatever is shorter than a quarter of an hour is a smoke test.
SMOKE_TEST_S = 900.0


def episode_s(gaps_s: Iterable[float], turns: int, turn_s: float) -> float:
    """How long an episode takes: its robot's own times, and `turns` brain turns of `turn_s`."""
    return sum(gaps_s) + turns * turn_s


def needed_duration_s(slowest_episode_s: float) -> float:
    """Shortest run that says something: the slowest episode twice, and no smoke test.

    Robots that start together meet at the same point of their episodes; with the slowest one twice,
    every robot has been through all of its phases beside others in different ones.

    Raises:
        InvalidArgumentError: Negative, or not a number.
    """
    if not slowest_episode_s >= 0:
        raise InvalidArgumentError(
            "out of range",
            field="slowest_episode_s",
            value=slowest_episode_s,
            allowed=("at least 0",),
        )
    return max(SMOKE_TEST_S, SLOWEST_EPISODES * slowest_episode_s)


def too_short(duration_s: float, slowest_episode_s: float) -> str | None:
    """A warning for people where a run is too short to mean anything; None: it is long enough."""
    needed_s = needed_duration_s(slowest_episode_s)
    if duration_s >= needed_s:
        return None
    why = (
        f"the slowest episode takes {slowest_episode_s:.0f} s and has to fit twice"
        if needed_s > SMOKE_TEST_S
        else "a fleet that collapses may need 20 minutes for it"
    )
    return (
        f"{duration_s:.0f} s are too short to set a cap from: {why}, so run {needed_s:.0f} s or "
        "more; take this as a smoke test"
    )
