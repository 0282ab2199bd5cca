from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable, Sequence
from contextlib import suppress

import numpy as np
import pytest

from robot_sdk.agent import (
    CUT_NUDGE_TEXT,
    NUDGE_TEXT,
    Agent,
    AgentLimits,
    opening_messages,
)
from robot_sdk.clock import VirtualClock
from robot_sdk.errors import (
    ContextLimitError,
    EpisodeLostError,
    EstopError,
    RobotSdkError,
    ServerUnavailableError,
    WorkerUnavailableError,
)
from robot_sdk.messages import (
    BrainTiming,
    FinishReason,
    ImagePart,
    Message,
    TextPart,
    TokenUsage,
    ToolCall,
    ToolSpec,
    TurnResult,
)
from robot_sdk.results import ClockSample
from robot_sdk.tools import ToolRegistry, finish, tool

Answer = tuple[str, Sequence[tuple[str, str]], FinishReason]


class FakeBrain:
    """Answers from a script; each question takes two virtual seconds."""

    def __init__(self, clock: VirtualClock, script: Sequence[Answer | RobotSdkError]) -> None:
        self.clock = clock
        self.script = list(script)
        self.asked: list[tuple[list[Message], int]] = []
        self.lost: RobotSdkError | None = None

    def decide(
        self,
        new_messages: Sequence[Message],
        tools: Sequence[ToolSpec] = (),
        *,
        trace: object = None,
    ) -> TurnResult:
        self.asked.append((list(new_messages), len(tools)))
        started_s = self.clock.now_s()
        self.clock.advance(2.0)
        answer = self.script.pop(0)
        if isinstance(answer, RobotSdkError):
            raise answer
        text, calls, finish_reason = answer
        index = len(self.asked) - 1
        return TurnResult(
            index=index,
            text=text,
            reasoning="",
            tool_calls=tuple(
                ToolCall(f"{index}-{i}", name, arguments)
                for i, (name, arguments) in enumerate(calls)
            ),
            finish_reason=finish_reason,
            usage=TokenUsage(),
            timing=BrainTiming(),
            started_s=started_s,
            ended_s=self.clock.now_s(),
        )


class World:
    """A toy with a step counter; every move takes ten steps and half a second."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.steps = 0
        self.during_move: Callable[[], None] = lambda: None

    @tool
    def move(self, x: float) -> str:
        """Move."""
        self.during_move()
        self.steps += 10
        self.clock.advance(0.5)
        return f"at {x}"

    def agent(
        self,
        script: Sequence[Answer | RobotSdkError],
        limits: AgentLimits = AgentLimits(),  # noqa: B008
        images: Sequence[ImagePart] = (),
    ) -> tuple[Agent, FakeBrain]:
        brain = FakeBrain(self.clock, script)
        agent = Agent(
            brain,
            ToolRegistry(self, finish),
            "pick the milk",
            first_images=images,
            env_steps=lambda: self.steps,
            limits=limits,
            clock=self.clock,
        )
        return agent, brain


def calls(*pairs: tuple[str, str], finish_reason: FinishReason = "stop") -> Answer:
    return ("", pairs, finish_reason)


MOVE = ("move", '{"x": 1}')
FINISH = ("finish", '{"success": true, "summary": "done"}')
EMPTY: Answer = ("I think so.", (), "stop")


def test_every_turn_sends_only_what_is_new_and_answers_each_call_in_order() -> None:
    agent, brain = World().agent([calls(MOVE, ("move", '{"x": 2}')), calls(FINISH)])

    end = agent.run()

    (first, num_tools), (second, later_tools) = brain.asked
    assert [m.role for m in first] == ["system", "user"]
    assert (num_tools, later_tools) == (2, 0)
    assert [(m.role, m.tool_call_id, m.tool_name) for m in second] == [
        ("tool", "0-0", "move"),
        ("tool", "0-1", "move"),
    ]
    assert second[1].parts == (TextPart("at 2.0"),)
    assert (end.outcome, end.reason, end.detail, end.turns) == ("success", "finished", "done", 2)


def test_d1_first_turn_is_constant_text_then_task_then_pictures() -> None:
    image = ImagePart(np.zeros((4, 4, 3), np.uint8), "agentview")

    messages = opening_messages("constant", "pick", [image])

    assert messages[0] == Message("system", (TextPart("constant"),))
    assert messages[1].parts[0] == TextPart("Task: pick")
    assert messages[1].parts[1] is image


def test_d2_opening_text_is_byte_equal_sixty_one_seconds_and_a_day_later() -> None:
    world = World()
    openings = []
    for later_s in (0.0, 61.0, 86_400.0):
        world.clock.advance(later_s)
        agent, _ = world.agent([])
        openings.append(agent.pending)

    assert openings[0] == openings[1] == openings[2]


def test_three_clocks_are_measured_between_answer_and_next_question() -> None:
    agent, _ = World().agent([calls(MOVE, MOVE), calls(MOVE), calls(FINISH)])

    end = agent.run()

    assert end.samples == (
        ClockSample(0, brain_s=2.0),
        ClockSample(1, brain_s=2.0, gap_steps=20, gap_wall_s=1.0),
        ClockSample(2, brain_s=2.0, gap_steps=10, gap_wall_s=0.5),
    )


def test_d4_an_empty_answer_gets_a_fixed_nudge_a_bounded_number_of_times() -> None:
    agent, brain = World().agent([EMPTY] * 10)

    end = agent.run()

    assert end.reason == "no_tool_call"
    assert len(brain.asked) == 1 + AgentLimits().max_empty_answers
    assert [m for asked, _ in brain.asked[1:] for m in asked] == [
        Message("user", (TextPart(NUDGE_TEXT),))
    ] * AgentLimits().max_empty_answers


def test_d4_a_call_between_empty_answers_starts_the_count_again() -> None:
    agent, _ = World().agent([EMPTY, EMPTY, calls(MOVE), EMPTY, EMPTY, calls(FINISH)])

    assert agent.run().reason == "finished"


def test_d9_no_call_of_an_answer_cut_at_the_output_limit_is_run() -> None:
    world = World()
    cut = calls(MOVE, ("move", '{"x": 1'), finish_reason="length")
    agent, brain = world.agent([cut, calls(FINISH)])

    end = agent.run()

    assert world.steps == 0
    assert [(m.tool_call_id, m.is_error) for m in brain.asked[1][0]] == [
        ("0-0", True),
        ("0-1", True),
    ]
    assert end.invalid_calls == 2
    assert end.reason == "finished"


def test_d9_an_answer_cut_before_any_call_is_told_so() -> None:
    agent, brain = World().agent([("thinking", (), "length"), calls(FINISH)])

    agent.run()

    assert brain.asked[1][0] == [Message("user", (TextPart(CUT_NUDGE_TEXT),))]


@pytest.mark.parametrize(
    "bad",
    [
        ("move", '{"x": "a"}'),
        ("move", '{"x": 1} so I moved'),
        ("fly", "{}"),
        ("move", ""),
        ("", "{mo"),
    ],
)
def test_d9_a_wrong_call_is_not_run_goes_back_as_error_and_the_next_turn_is_fine(
    bad: tuple[str, str],
) -> None:
    world = World()
    agent, brain = world.agent([calls(bad), calls(MOVE), calls(FINISH)])

    end = agent.run()

    assert brain.asked[1][0][0].is_error
    assert world.steps == 10
    assert (end.reason, end.invalid_calls) == ("finished", 1)


def test_wrong_calls_in_a_row_end_the_episode() -> None:
    agent, brain = World().agent([calls(("fly", "{}"))] * 20, AgentLimits(max_invalid_calls=3))

    end = agent.run()

    assert (end.outcome, end.reason) == ("failure", "invalid_calls")
    assert len(brain.asked) == 4


@pytest.mark.parametrize(
    ("limits", "reason", "turns"),
    [
        (AgentLimits(max_turns=3), "max_turns", 3),
        (AgentLimits(max_env_steps=35), "max_env_steps", 4),
    ],
)
def test_limits_end_the_episode_as_a_failure(limits: AgentLimits, reason: str, turns: int) -> None:
    agent, _ = World().agent([calls(MOVE)] * 10, limits)

    end = agent.run()

    assert (end.outcome, end.reason, end.turns) == ("failure", reason, turns)


def test_calls_after_finish_are_not_run_but_answered() -> None:
    world = World()
    agent, _ = world.agent([calls(FINISH, MOVE)])

    agent.run()

    assert world.steps == 0
    assert [(m.tool_call_id, m.is_error) for m in agent.pending] == [("0-0", False), ("0-1", True)]


def test_an_interrupted_tool_leaves_no_call_without_an_answer() -> None:
    world = World()
    agent, brain = world.agent([calls(MOVE, MOVE), calls(FINISH)])

    def interrupt() -> None:
        raise KeyboardInterrupt

    world.during_move = interrupt
    with pytest.raises(KeyboardInterrupt):
        agent.run()
    world.during_move = lambda: None
    end = agent.run()

    assert [(m.tool_call_id, m.is_error) for m in brain.asked[1][0]] == [
        ("0-0", True),
        ("0-1", True),
    ]
    assert end.reason == "finished"


@pytest.mark.parametrize(
    "interruption",
    [
        KeyboardInterrupt(),
        SystemExit(1),
        CancelledError(),
        EstopError("e-stop: operator"),
        EpisodeLostError("the server restarted"),
        ValueError("a fault of the tool"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_whatever_interrupts_a_tool_the_next_question_answers_each_call_once(
    interruption: BaseException,
) -> None:
    world = World()
    agent, brain = world.agent([calls(MOVE, MOVE, MOVE), calls(FINISH)])

    def interrupt() -> None:
        raise interruption

    world.during_move = interrupt
    with suppress(KeyboardInterrupt, SystemExit, CancelledError):
        agent.run()

    told = agent.pending if len(brain.asked) == 1 else brain.asked[1][0]
    assert [m.tool_call_id for m in told] == ["0-0", "0-1", "0-2"]
    assert all(m.role == "tool" and m.is_error for m in told)


def test_c5_an_estop_during_a_tool_ends_the_episode_and_no_later_call_runs() -> None:
    world = World()
    agent, brain = world.agent([calls(MOVE, MOVE), calls(FINISH)])

    def stop() -> None:
        raise EstopError("e-stop: operator")

    world.during_move = stop
    end = agent.run()

    assert (end.outcome, end.reason, world.steps) == ("aborted", "estop", 0)
    assert len(brain.asked) == 1


def test_an_episode_lost_during_a_tool_ends_with_the_reason_and_keeps_the_samples() -> None:
    world = World()
    agent, brain = world.agent([calls(MOVE), calls(FINISH)])

    def lose() -> None:
        brain.lost = EpisodeLostError("the server restarted")

    world.during_move = lose
    end = agent.run()

    assert (end.outcome, end.reason) == ("aborted", "episode_lost")
    assert "restarted" in end.detail
    assert len(end.samples) == 1


def test_an_episode_lost_while_asking_ends_with_the_reason() -> None:
    agent, _ = World().agent([calls(MOVE), EpisodeLostError("the server restarted")])

    end = agent.run()

    assert (end.outcome, end.reason, end.turns) == ("aborted", "episode_lost", 1)


def test_a_question_that_failed_in_passing_is_asked_again_with_the_same_messages() -> None:
    world = World()
    agent, brain = world.agent(
        [calls(MOVE), WorkerUnavailableError("loading", retry_after_s=3.0), calls(FINISH)]
    )

    end = agent.run()

    assert brain.asked[1] == brain.asked[2]
    assert end.reason == "finished"
    assert end.samples[1].brain_s == 2.0 + 3.0 + 2.0


def test_questions_that_keep_failing_end_the_episode() -> None:
    agent, brain = World().agent([ServerUnavailableError("down")] * 20)

    end = agent.run()

    assert (end.outcome, end.reason) == ("aborted", "brain_error")
    assert len(brain.asked) == 1 + AgentLimits().max_brain_retries


def test_d8_a_conversation_too_long_for_the_model_ends_the_episode_with_that_reason() -> None:
    agent, brain = World().agent([calls(MOVE), ContextLimitError("2100 tokens of 2048")])

    end = agent.run()

    assert (end.outcome, end.reason) == ("failure", "context_limit")
    assert "2100 tokens" in end.detail
    assert len(brain.asked) == 2
