"""Robots that take their turns one after the other, in a fixed cyclic order, over gRPC."""

from __future__ import annotations

import queue
import threading
from collections import deque
from dataclasses import dataclass

from robot_sdk.client import Client
from robot_sdk.episode import Episode
from robot_sdk.errors import RobotSdkError
from robot_sdk.messages import Message, TextPart, TokenUsage
from server.core.residency import is_full_prefix_hit

_ADMISSION_TIMEOUT_S = 60.0
_TURN_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Load:
    """What each robot does.

    Attributes:
        num_visits: Turns after the first one.
        first_words, visit_words: Words that the first turn and each later one add.
    """

    num_robots: int
    num_visits: int
    first_words: int
    visit_words: int


@dataclass(frozen=True)
class Tally:
    """Turns after the first one of each episode, as robots saw them in their own usage.

    Attributes:
        kept: Whole earlier prefix cached.
        counted: Of so many turns.
        longest_context_tokens: Of any robot at its end.
        warm_context_tokens: Mean after the first turns.
    """

    kept: int
    counted: int
    longest_context_tokens: int
    warm_context_tokens: float


@dataclass
class _Robot:
    name: str
    done: threading.Event
    thread: threading.Thread | None = None
    episode: Episode | None = None
    turns: int = 0
    context_tokens: int = 0


class Carousel:
    """Runs one load.

    Args:
        cap: Of the server's door; None: everybody comes in before the first turn. With a cap the
            next robot takes the place of one that has ended.
        block_tokens: Of the engine's cache.
        label: Makes the robots' words their own, so that no two runs share a prefix.
    """

    def __init__(
        self, client: Client, load: Load, cap: int | None, block_tokens: int, label: str
    ) -> None:
        self._client = client
        self._load = load
        self._inside = load.num_robots if cap is None else min(cap, load.num_robots)
        self._block_tokens = block_tokens
        self._robots = [
            _Robot(f"{label}-{index}", threading.Event()) for index in range(load.num_robots)
        ]
        self._admitted: queue.Queue[_Robot | RobotSdkError] = queue.Queue()
        self._ring: deque[_Robot] = deque()
        self._kept = self._counted = 0
        self._warm_contexts: list[int] = []

    def enter(self) -> None:
        """Send everybody to the door; returns when as many as may are inside.

        Raises:
            RobotSdkError: An episode is not admitted in time.
        """
        try:
            for robot in self._robots:
                robot.thread = threading.Thread(target=self._be_inside, args=(robot,), daemon=True)
                robot.thread.start()
                if len(self._ring) < self._inside:
                    self._ring.append(self._next_admitted())
        except BaseException:
            self._let_go()
            raise

    def run(self) -> Tally:
        """Every robot's turns; returns when all episodes have ended.

        Raises:
            RobotSdkError: An episode is not admitted in time or a turn fails.
        """
        try:
            self._go_round()
        finally:
            self._let_go()
        return Tally(
            kept=self._kept,
            counted=self._counted,
            longest_context_tokens=max(robot.context_tokens for robot in self._robots),
            warm_context_tokens=sum(self._warm_contexts) / len(self._warm_contexts),
        )

    def _go_round(self) -> None:
        num_left = len(self._robots)
        while num_left:
            robot = self._ring.popleft()
            self._turn(robot)
            if robot.turns <= self._load.num_visits:
                self._ring.append(robot)
                continue
            num_left -= 1
            robot.done.set()
            assert robot.thread is not None
            robot.thread.join()
            if len(self._ring) < min(self._inside, num_left):
                self._ring.append(self._next_admitted())

    def _let_go(self) -> None:
        for robot in self._robots:
            robot.done.set()

    def _be_inside(self, robot: _Robot) -> None:
        """Holds the episode open; runs in the robot's thread."""
        try:
            with self._client.episode(
                task="revisit",
                robot_id=robot.name,
                task_family="cliff",
                admission_timeout_s=_ADMISSION_TIMEOUT_S,
            ) as episode:
                robot.episode = episode
                self._admitted.put(robot)
                robot.done.wait()
        except RobotSdkError as error:
            self._admitted.put(error)

    def _next_admitted(self) -> _Robot:
        admitted = self._admitted.get()
        if isinstance(admitted, RobotSdkError):
            raise admitted
        return admitted

    def _turn(self, robot: _Robot) -> None:
        assert robot.episode is not None
        num_words = self._load.visit_words if robot.turns else self._load.first_words
        # The robot's name comes first, so that prefixes part at their beginning.
        words = " ".join(["robot", robot.name, "turn", str(robot.turns), *["place"] * num_words])
        turn = robot.episode.decide(
            [Message("user", (TextPart(words),))], deadline_s=_TURN_TIMEOUT_S
        )
        self._count(robot, turn.usage)

    def _count(self, robot: _Robot, usage: TokenUsage) -> None:
        if usage.input_tokens is None or usage.output_tokens is None or usage.cached_tokens is None:
            raise RobotSdkError(f"the server's engine does not count tokens: {usage}")
        if robot.turns:
            self._counted += 1
            self._kept += is_full_prefix_hit(
                cached_tokens=usage.cached_tokens,
                expected_prefix_tokens=robot.context_tokens,
                block_tokens=self._block_tokens,
            )
        robot.context_tokens = usage.input_tokens + usage.output_tokens
        if not robot.turns:
            self._warm_contexts.append(robot.context_tokens)
        robot.turns += 1
