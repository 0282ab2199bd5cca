"""The loop between brain and tools: ask, run the tools, tell, ask again.

The conversation only ever grows, and each turn sends only what is new. Its front is constant text
(system prompt, tools), then the task, then pictures, so that the server's prefix cache can hold
it. No clock, id or counter ever enters a message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

from robot_sdk.api.v1 import common_pb2
from robot_sdk.clock import SYSTEM_CLOCK, Clock
from robot_sdk.errors import (
    ContextLimitError,
    EpisodeError,
    EstopError,
    RetryableError,
    RobotSdkError,
)
from robot_sdk.messages import ImagePart, Message, TextPart, ToolCall, ToolSpec, TurnResult
from robot_sdk.results import AgentEnd, ClockSample, Outcome
from robot_sdk.tools import ToolRegistry, ToolResult

DEFAULT_SYSTEM_PROMPT = """\
You control a robot through tools. Look before you act, and check after every action whether it did
what you wanted. Call one tool at a time and read its result before the next. A tool that fails says
why; try another way then. Lengths are in metres and angles in radians, in the world frame with z
up. Call finish as soon as the task is done, or when it cannot be done."""

#: Sent when an answer held no tool call. Fixed text, so that equal histories stay equal.
NUDGE_TEXT = "Your answer held no tool call. Call one tool, or finish to end the episode."
#: Sent when an answer without a tool call was cut at the output limit.
CUT_NUDGE_TEXT = (
    "Your answer was cut at the output limit before a tool call. Answer in fewer words."
)
#: Answers every call of an answer that was cut at the output limit; its last call may be
#: incomplete, and the earlier ones may depend on it.
CUT_CALL_TEXT = "not run: the answer was cut at the output limit. Write the call again, shorter."
#: Answers calls that were not reached.
SKIPPED_CALL_TEXT = "not run: an earlier call of the same answer ended the episode."
INTERRUPTED_CALL_TEXT = "interrupted before it was done."


@dataclass(frozen=True)
class Gap:
    """What lies between the previous answer and the question of turn `turn_index`.

    Attributes:
        steps: Control steps with a tool running. None for the first turn.
        wall_s: Seconds on the robot's monotonic clock. None for the first turn.
    """

    turn_index: int
    steps: int | None = None
    wall_s: float | None = None


class Brain(Protocol):
    """The part of an episode that the agent talks to."""

    @property
    def lost(self) -> RobotSdkError | None:
        """Why the episode cannot go on; None while it can."""

    def decide(
        self,
        new_messages: Sequence[Message],
        tools: Sequence[ToolSpec] = (),
        *,
        trace: common_pb2.TraceContext | None = None,
    ) -> TurnResult:
        """Run one turn. Repeating a failed turn with the same messages is safe."""


class DecideObserver(Protocol):
    """Is told about one question."""

    @property
    def trace(self) -> common_pb2.TraceContext | None:
        """Travels with the question."""

    def answered(self, turn: TurnResult, /) -> None:
        """The answer has come."""


class AgentObserver(Protocol):
    """Is told what the agent does, for traces. Every method returns a context to run in."""

    def turn(self, turn_index: int, /) -> AbstractContextManager[Any]:
        """Around one question and the tools of its answer."""

    def decide(
        self, gap: Gap, new_messages: Sequence[Message], /
    ) -> AbstractContextManager[DecideObserver]:
        """Around one question."""

    def tool(self, call: ToolCall, /) -> AbstractContextManager[Callable[[ToolResult], None]]:
        """Around one tool call. What it yields is called with the result."""


@dataclass(frozen=True)
class AgentLimits:
    """Bounds of one episode. None: no bound.

    Attributes:
        max_turns: Questions to the brain.
        max_env_steps: Control steps with a tool running. Tools should stop at it themselves; the
            agent only looks between calls.
        max_empty_answers: Answers in a row without a tool call that are answered with a nudge.
        max_invalid_calls: Calls in a row that were refused unrun.
        max_brain_retries: Repetitions of one question after errors that may pass. A server that
            cannot be reached, or whose brain is not ready, is waited for within each of them: up to
            60 s without a deadline, so with 2 repetitions three minutes in all. The robot holds.
        brain_retry_s: Pause before such a repetition when the server names none.
    """

    max_turns: int | None = 100
    max_env_steps: int | None = 3000
    max_empty_answers: int = 2
    max_invalid_calls: int = 5
    max_brain_retries: int = 2
    brain_retry_s: float = 1.0


class _Stop(Exception):
    """Leaves the loop with the reason for it."""

    def __init__(
        self, outcome: Outcome, reason: str, detail: str = "", error: Exception | None = None
    ) -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.outcome, self.reason, self.detail, self.error = outcome, reason, detail, error


class Agent:
    """Runs one episode's conversation.

    Args:
        brain: The episode.
        tools: What the brain may call.
        task: The task in words.
        first_images: Pictures for the first question; placed after all text.
        system_prompt: Constant text. It must hold nothing that differs between episodes.
        env_steps: Control steps so far with a tool running.
        limits: Bounds.
        clock: The robot's clock.
        observer: Is told about turns and tool calls.
    """

    def __init__(
        self,
        brain: Brain,
        tools: ToolRegistry,
        task: str,
        *,
        first_images: Sequence[ImagePart] = (),
        system_prompt: str = DEFAULT_SYSTEM_PROMPT,
        env_steps: Callable[[], int] = lambda: 0,
        limits: AgentLimits = AgentLimits(),  # frozen, so safe to share
        clock: Clock = SYSTEM_CLOCK,
        observer: AgentObserver | None = None,
    ) -> None:
        self._brain = brain
        self._tools = tools
        self._env_steps = env_steps
        self._limits = limits
        self._clock = clock
        self._observer: AgentObserver = observer or _NoObserver()
        self._pending: list[Message] = opening_messages(system_prompt, task, first_images)
        self._turns = 0
        self._empty_answers = 0
        self._invalid_in_a_row = 0
        self._invalid_calls = 0
        self._answered: tuple[float, int] | None = None
        self._samples: list[ClockSample] = []

    @property
    def pending(self) -> tuple[Message, ...]:
        """What the next question will send. Holds an answer to every call of the last one."""
        return tuple(self._pending)

    def run(self) -> AgentEnd:
        """Go on until the brain finishes, a limit is reached, or the episode is lost.

        Exceptions of the kind that ends programs (KeyboardInterrupt) pass through; the
        conversation is whole even then, and `run` may be called again.
        """
        try:
            while True:
                self._check_limits()
                with self._observer.turn(self._turns):
                    stop = self._take_turn()
                if stop is not None:
                    raise stop
        except _Stop as stop:
            return AgentEnd(
                outcome=stop.outcome,
                reason=stop.reason,
                detail=stop.detail,
                turns=self._turns,
                invalid_calls=self._invalid_calls,
                samples=tuple(self._samples),
                error=stop.error,
            )

    def _take_turn(self) -> _Stop | None:
        """One question and its tools. A planned end is returned: it is no failure of the turn."""
        try:
            self._answer(self._decide())
        except _Stop as stop:
            return stop
        return None

    def _check_limits(self) -> None:
        limits = self._limits
        if limits.max_turns is not None and self._turns >= limits.max_turns:
            raise _Stop("failure", "max_turns", f"{self._turns} turns without an end")
        env_steps = self._env_steps()
        if limits.max_env_steps is not None and env_steps >= limits.max_env_steps:
            raise _Stop("failure", "max_env_steps", f"{env_steps} control steps without an end")

    def _decide(self) -> TurnResult:
        started_s = self._clock.now_s()
        gap = self._gap(started_s)
        specs = self._tools.specs if self._turns == 0 else ()
        with self._observer.decide(gap, self.pending) as observer:
            turn = self._ask(specs, observer.trace)
            observer.answered(turn)
        ended_s = self._clock.now_s()
        self._samples.append(ClockSample(self._turns, ended_s - started_s, gap.steps, gap.wall_s))
        self._answered = (ended_s, self._env_steps())
        self._turns += 1
        self._pending = []
        return turn

    def _gap(self, now_s: float) -> Gap:
        if self._answered is None:
            return Gap(self._turns)
        answered_s, answered_steps = self._answered
        return Gap(self._turns, self._env_steps() - answered_steps, now_s - answered_s)

    def _ask(self, specs: Sequence[ToolSpec], trace: common_pb2.TraceContext | None) -> TurnResult:
        for attempt in range(self._limits.max_brain_retries + 1):
            try:
                return self._brain.decide(self._pending, tools=specs, trace=trace)
            except RetryableError as error:
                if self._brain.lost is not None or attempt == self._limits.max_brain_retries:
                    raise self._stop_for(error) from error
                pause_s = error.retry_after_s or self._limits.brain_retry_s
                self._clock.sleep_until(self._clock.now_s() + pause_s)
            except RobotSdkError as error:
                raise self._stop_for(error) from error
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _stop_for(self, error: Exception) -> _Stop:
        lost = self._brain.lost
        if lost is not None:
            return _Stop("aborted", "episode_lost", str(lost), lost)
        if isinstance(error, EpisodeError):
            return _Stop("aborted", "episode_lost", str(error), error)
        if isinstance(error, ContextLimitError):
            # Asking again would fail for ever: the conversation only grows.
            return _Stop("failure", "context_limit", str(error), error)
        return _Stop("aborted", "brain_error", str(error), error)

    def _answer(self, turn: TurnResult) -> None:
        if not turn.tool_calls:
            self._empty_answers += 1
            if self._empty_answers > self._limits.max_empty_answers:
                count = self._empty_answers
                raise _Stop("failure", "no_tool_call", f"{count} answers in a row without a call")
            text = CUT_NUDGE_TEXT if turn.finish_reason == "length" else NUDGE_TEXT
            self._pending.append(Message.of_text("user", text))
            return
        self._empty_answers = 0
        unanswered = list(turn.tool_calls)
        try:
            while unanswered:
                result = self._run_tool(unanswered[0], cut=turn.finish_reason == "length")
                self._pending.append(tool_message(unanswered.pop(0), result))
                self._check_result(result)
        except _Stop:
            self._close_calls(unanswered, SKIPPED_CALL_TEXT)
            raise
        except BaseException:
            self._close_calls(unanswered, INTERRUPTED_CALL_TEXT)
            raise

    def _run_tool(self, call: ToolCall, cut: bool) -> ToolResult:
        with self._observer.tool(call) as report:
            if cut:
                result = ToolResult(CUT_CALL_TEXT, is_error=True, is_invalid=True)
            else:
                result = self._tools.call(call.name, call.arguments_json)
            report(result)
        return result

    def _check_result(self, result: ToolResult) -> None:
        if result.finish is not None:
            outcome: Outcome = "success" if result.finish.success else "failure"
            reason = "finished" if result.finish.success else "gave_up"
            raise _Stop(outcome, reason, result.finish.summary)
        if isinstance(result.error, EstopError):
            raise _Stop("aborted", "estop", str(result.error), result.error)
        if self._brain.lost is not None or isinstance(result.error, EpisodeError):
            raise self._stop_for(result.error or EpisodeError("the episode is lost"))
        self._invalid_in_a_row = self._invalid_in_a_row + 1 if result.is_invalid else 0
        self._invalid_calls += result.is_invalid
        if self._invalid_in_a_row > self._limits.max_invalid_calls:
            raise _Stop(
                "failure", "invalid_calls", f"{self._invalid_in_a_row} calls refused in a row"
            )

    def _close_calls(self, calls: Sequence[ToolCall], text: str) -> None:
        self._pending += [tool_message(call, ToolResult(text, is_error=True)) for call in calls]


def opening_messages(
    system_prompt: str, task: str, images: Sequence[ImagePart] = ()
) -> list[Message]:
    """The messages of the first turn: constant text, then the task, then pictures."""
    return [
        Message.of_text("system", system_prompt),
        Message("user", (TextPart(f"Task: {task}"), *images)),
    ]


def tool_message(call: ToolCall, result: ToolResult) -> Message:
    """The answer to one call: text, then pictures."""
    return Message(
        "tool",
        (TextPart(result.text), *result.images),
        tool_call_id=call.id,
        tool_name=call.name,
        is_error=result.is_error,
    )


class _NoObserver:
    def turn(self, _: int, /) -> AbstractContextManager[Any]:
        return nullcontext()

    def decide(self, _: Gap, __: Sequence[Message], /) -> AbstractContextManager[DecideObserver]:
        return nullcontext(_NoDecideObserver())

    def tool(self, _: ToolCall, /) -> AbstractContextManager[Callable[[ToolResult], None]]:
        return nullcontext(_ignore)


class _NoDecideObserver:
    trace = None

    def answered(self, _: TurnResult, /) -> None:
        pass


def _ignore(_: object) -> None:
    pass
