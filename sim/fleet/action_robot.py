"""A robot in virtual time: the SDK's control loop, with a policy stream that leads to the tier."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from robot_sdk.action_guard import ActionGuard
from robot_sdk.chunks import ChunkArrival, ChunkFailure, PolicyObservation, PolicyTiming
from robot_sdk.control_core import ControlCore
from robot_sdk.estop import EstopLatch
from robot_sdk.loop_state import LoopState
from robot_sdk.spec import PolicySpec
from robot_sdk.testing.recording_robot import RecordingRobot
from robot_sdk.tick_driver import TickDriver
from sim.fleet.disciplines import MakeSource
from sim.fleet.event_loop import EventLoop
from sim.fleet.network import Link, NetworkModel


@dataclass(frozen=True)
class RobotPlan:
    """One robot of a fleet.

    Attributes:
        control_hz: Its control rate, and what it tells the server.
        joins_s: When it opens its policy stream.
        leaves_s: When it closes it. None: at the end.
        clock_ppm: How much faster than the server's its clock runs, parts per million.
        stalls: (when, for how long) its control loop is held up, seconds.
    """

    control_hz: float
    joins_s: float = 0.0
    leaves_s: float | None = None
    clock_ppm: float = 0.0
    stalls: tuple[tuple[float, float], ...] = ()


Answer = Callable[[PolicyObservation], NDArray[np.generic]]


class FleetStream:
    """A `PolicyStream` whose messages travel over a network in virtual time.

    Args:
        submit: The server's end; called when an observation arrives there.
        answer: What the policy says to an observation, (horizon, action_dim); asked when its chunk
            leaves the server. None: the row of a step is the step's number.
    """

    def __init__(
        self,
        number: int,
        spec: PolicySpec,
        loop: EventLoop,
        network: NetworkModel,
        chance: random.Random,
        submit: Callable[[FleetStream, PolicyObservation], None],
        answer: Answer | None = None,
    ) -> None:
        self.number = number
        self._spec = spec
        self._loop = loop
        self._up = Link(network, chance)
        self._down = Link(network, chance)
        self._submit = submit
        self._answer = self._step_numbers if answer is None else answer
        self._inbox: list[tuple[float, ChunkArrival | ChunkFailure]] = []
        self._sent_s: dict[int, float] = {}
        self.is_closed = False

    @property
    def spec(self) -> PolicySpec:
        return self._spec

    def send(self, observation: PolicyObservation) -> None:
        now_s = self._loop.clock.now_s()
        self._sent_s[observation.sequence] = now_s
        self._loop.at(self._up.arrival_s(now_s), lambda: self._submit(self, observation))

    def poll(self) -> list[ChunkArrival | ChunkFailure]:
        now_s = self._loop.clock.now_s()
        arrived = [answer for received_s, answer in self._inbox if received_s <= now_s]
        self._inbox = self._inbox[len(arrived) :]
        return arrived

    def wait(self, timeout_s: float) -> bool:
        """Only called in lockstep."""
        raise NotImplementedError("a fleet runs in real time, not in lockstep")

    def close(self) -> None:
        self.is_closed = True

    def opened_s(self) -> tuple[float, float]:
        """Open it now. Returns when the server knows, and when the robot has the answer."""
        asked_s = self._up.arrival_s(self._loop.clock.now_s())
        return asked_s, self._down.arrival_s(asked_s)

    def deliver(self, observation: PolicyObservation, next_observation_in_s: float | None) -> None:
        """Send the chunk from the server, now."""
        received_s = self._down.arrival_s(self._loop.clock.now_s())
        arrival = ChunkArrival(
            sequence=observation.sequence,
            control_step=observation.control_step,
            actions=self._answer(observation),
            timing=PolicyTiming(),
            sent_s=self._sent_s.pop(observation.sequence),
            received_s=received_s,
            next_observation_in_s=next_observation_in_s,
        )
        self._inbox.append((received_s, arrival))

    def fail(self, failure: ChunkFailure) -> None:
        """Send a failure from the server, now."""
        self._sent_s.pop(failure.sequence, None)
        self._inbox.append((self._down.arrival_s(self._loop.clock.now_s()), failure))

    def _step_numbers(self, observation: PolicyObservation) -> NDArray[np.generic]:
        steps = observation.control_step + np.arange(self._spec.horizon, dtype=np.float32)
        return steps[:, np.newaxis]


class FleetRobot:
    """The SDK's control loop, stepped by the event loop.

    Attributes:
        robot: What it executed; the action of every step is the step's number.
    """

    def __init__(self, plan: RobotPlan, stream: FleetStream, loop: EventLoop) -> None:
        self.plan = plan
        self.stream = stream
        self._loop = loop
        actual_hz = plan.control_hz * (1.0 + plan.clock_ppm * 1e-6)
        self.robot = RecordingRobot(loop.clock, control_hz=actual_hz)
        self._core = ControlCore(ActionGuard.unlimited(1), EstopLatch())
        self._driver: TickDriver | None = None
        self._stalled_until_s = 0.0

    def state(self) -> LoopState:
        """The SDK's own counters."""
        return self._core.state() if self._driver is None else self._driver.state()

    def start(self, make_source: MakeSource, first_observation_s: float | None) -> None:
        """The stream is open: the policy tool begins."""
        self._driver = TickDriver(self.robot, self._core, self._loop.clock, "realtime")
        self._core.submit(make_source(self.stream, first_observation_s))
        for at_s, duration_s in self.plan.stalls:
            self._loop.at(at_s, partial(self._stall, at_s + duration_s))
        self._wake(self._driver)

    def leave(self) -> None:
        """The robot is switched off."""
        self.stream.close()

    def _stall(self, end_s: float) -> None:
        self._stalled_until_s = end_s

    def _wake(self, driver: TickDriver) -> None:
        due_s = driver.due_s()
        if due_s is not None:
            self._loop.at(due_s, partial(self._tick, driver))

    def _tick(self, driver: TickDriver) -> None:
        if self.stream.is_closed:
            return
        if self._loop.clock.now_s() < self._stalled_until_s:
            self._loop.at(self._stalled_until_s, partial(self._tick, driver))
            return
        driver.run()
        self._wake(driver)
