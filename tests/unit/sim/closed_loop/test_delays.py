"""Delays of an episode, and a brain that takes them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from robot_sdk.api.v1 import common_pb2
from robot_sdk.clock import VirtualClock
from robot_sdk.messages import BrainTiming, Message, TokenUsage, ToolSpec, TurnResult
from sim.closed_loop.delays import NO_DELAYS, EpisodeDelays, draw
from sim.closed_loop.slow_brain import SlowBrain

MANY = tuple(EpisodeDelays(float(i), (float(i),)) for i in range(50))


def test_turns_take_the_latencies_in_order() -> None:
    delays = EpisodeDelays(0.0, (3.0, 1.0, 2.0))
    assert [delays.turn_s(i) for i in range(3)] == [3.0, 1.0, 2.0]


def test_turns_beyond_the_known_ones_take_those_of_the_later_half() -> None:
    delays = EpisodeDelays(0.0, (9.0, 9.0, 1.0, 2.0))
    assert [delays.turn_s(i) for i in range(4, 8)] == [1.0, 2.0, 1.0, 2.0]


def test_one_known_turn_is_enough_for_all() -> None:
    assert {EpisodeDelays(0.0, (4.0,)).turn_s(i) for i in range(5)} == {4.0}
    assert NO_DELAYS.turn_s(7) == 0.0


@pytest.mark.parametrize("latencies_s", [(), (-1.0,), (float("nan"),), (float("inf"),)])
def test_latencies_that_cannot_be_are_refused(latencies_s: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match=r"latenc|delay"):
        EpisodeDelays(0.0, latencies_s)


def test_the_same_names_draw_the_same_episode_and_others_do_not() -> None:
    drawn = [draw(MANY, "N32", task, 0) for task in range(20)]
    assert drawn == [draw(MANY, "N32", task, 0) for task in range(20)]
    assert len(set(drawn)) > 5


def test_drawing_from_nothing_says_what_to_do() -> None:
    with pytest.raises(ValueError, match="replay for longer"):
        draw((), "N32")


class Brain:
    """Answers at once, in no time."""

    lost = None

    def decide(
        self,
        new_messages: Sequence[Message],
        tools: Sequence[ToolSpec] = (),
        *,
        trace: common_pb2.TraceContext | None = None,
    ) -> TurnResult:
        return TurnResult(0, "yes", "", (), "stop", TokenUsage(), BrainTiming(), 0.0, 0.0)


def test_a_slow_brain_is_back_when_the_turns_time_has_passed_in_the_world() -> None:
    clock = VirtualClock(10.0)
    passed: list[float] = []

    def pass_time(until_s: float) -> None:
        passed.append(until_s)
        clock.sleep_until(until_s)

    brain = SlowBrain(Brain(), EpisodeDelays(0.0, (2.0, 0.5)), clock, pass_time)
    assert brain.decide([]).text == "yes"
    brain.decide([])
    assert passed == [12.0, 12.5]
