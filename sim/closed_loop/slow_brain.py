"""A brain whose turns take as long as they would on a loaded box."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from robot_sdk.agent import Brain
from robot_sdk.api.v1 import common_pb2
from robot_sdk.clock import Clock
from robot_sdk.errors import RobotSdkError
from robot_sdk.messages import Message, ToolSpec, TurnResult
from sim.closed_loop.delays import EpisodeDelays


class SlowBrain:
    """Asks another brain, and lets the world go on for as long as the turn is said to take.

    Args:
        brain: Decides; the real time that it takes does not count.
        delays: Of this episode.
        clock: The robot's.
        pass_time: Lets the world go on to a moment of that clock.
    """

    def __init__(
        self,
        brain: Brain,
        delays: EpisodeDelays,
        clock: Clock,
        pass_time: Callable[[float], None],
    ) -> None:
        self._brain = brain
        self._delays = delays
        self._clock = clock
        self._pass_time = pass_time
        self._num_turns = 0

    @property
    def lost(self) -> RobotSdkError | None:
        """Of the brain that decides."""
        return self._brain.lost

    def decide(
        self,
        new_messages: Sequence[Message],
        tools: Sequence[ToolSpec] = (),
        *,
        trace: common_pb2.TraceContext | None = None,
    ) -> TurnResult:
        """Run one turn; back when its time has passed in the robot's world."""
        turn = self._brain.decide(new_messages, tools, trace=trace)
        self._pass_time(self._clock.now_s() + self._delays.turn_s(self._num_turns))
        self._num_turns += 1
        return turn
