from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from robot_sdk import telemetry
from robot_sdk.clock import VirtualClock
from robot_sdk.errors import InvalidArgumentError
from robot_sdk.messages import TokenUsage
from robot_sdk.telemetry import attributes as attr
from robot_sdk.telemetry import spans
from sim.fleet.workload.recorder import Recording, record
from sim.fleet.workload.trace import TurnTrace
from sim.fleet.workload.trace_file import read_traces, write_traces


@dataclass
class Turn:
    """A turn and its one tool, which takes `wall_s`."""

    usage: TokenUsage | None
    latency_s: float = 1.5
    new_images: int = 0
    steps: int = 0
    wall_s: float = 0.5
    chunks: int = 0
    late_chunks: int = 0
    fails: bool = False


def _usage(new: int | None, whole: int | None = None, output: int | None = 7) -> TokenUsage:
    return TokenUsage(input_tokens=whole, output_tokens=output, new_tokens=new)


class Robot:
    """Writes episodes as a robot does."""

    def __init__(self, folder: Path) -> None:
        self.clock = VirtualClock(50.0)
        self.telemetry = telemetry.start("robot-0", folder, clock=self.clock)

    def episode(
        self,
        *turns: Turn,
        outcome: str = "success",
        ends: bool = True,
        task: str = "pick up the milk",
    ) -> None:
        episode = self.telemetry.start_span(
            attr.SPAN_EPISODE,
            attributes=spans.episode(
                robot_id="robot-0",
                episode_id="ep",
                task=task,
                suite="libero_object_swap",
                control_hz=20.0,
            ),
        )
        before: Turn | None = None
        for index, turn in enumerate(turns):
            span = self.telemetry.start_span(
                attr.SPAN_TURN, parent=episode, attributes=spans.turn(turn_index=index)
            )
            decide = self.telemetry.start_span(attr.SPAN_DECIDE, parent=span)
            if before is not None:
                decide.set(spans.gap(env_steps=before.steps, control_hz=20.0, wall_s=before.wall_s))
            self.clock.advance(turn.latency_s)
            attributes = spans.decide(
                turn_index=index, usage=turn.usage, num_new_images=turn.new_images
            )
            decide.end(attributes=attributes, error="away" if turn.fails else None)
            self._tool(span, turn)
            span.end()
            before = turn
        if ends:
            episode.end(attributes=spans.episode_end(outcome=outcome))

    def _tool(self, parent: telemetry.OpenSpan, turn: Turn) -> None:
        tool = self.telemetry.start_span("tool.pick", parent=parent)
        for number in range(turn.chunks + turn.late_chunks):
            is_late = number >= turn.chunks
            self.telemetry.start_span(attr.SPAN_CHUNK, parent=tool).end(
                attributes=spans.chunk(
                    sequence=number,
                    control_step=5 * number,
                    round_trip_s=0.1,
                    rows=10,
                    applied_step=None if is_late else 5 * number,
                )
            )
        self.clock.advance(turn.wall_s)
        tool.end(attributes=spans.tool(name="pick", steps=turn.steps))


@pytest.fixture
def robot(tmp_path: Path) -> Iterator[Robot]:
    writer = Robot(tmp_path)
    yield writer
    writer.telemetry.shutdown()


def _record(robot: Robot, folder: Path) -> Recording:
    robot.telemetry.shutdown()
    return record(folder)


def test_a_run_becomes_turns(robot: Robot, tmp_path: Path) -> None:
    robot.episode(
        Turn(_usage(100, 100), new_images=2, steps=0, wall_s=0.25),
        Turn(_usage(30, 137, output=9), steps=40, wall_s=3.0, chunks=3, late_chunks=1),
        Turn(_usage(5, 151), steps=4),
    )
    recording = _record(robot, tmp_path)
    (trace,) = recording.traces
    assert trace.turns == (
        TurnTrace(100, 7, 0, 0.25, 1.5, 2, 0),
        TurnTrace(30, 9, 40, 3.0, 1.5, 0, 3),
        TurnTrace(5, 7, 4, None, 1.5, 0, 0),
    )
    assert trace.prompt_tokens == (100, 137, 151)
    assert (trace.trace_id, trace.task_family, trace.task) == (
        "ep",
        "libero_object_swap",
        "pick up the milk",
    )
    assert (trace.success, trace.source, trace.tokens_estimated) == (True, "recorded", False)
    assert (recording.left_out, recording.notes) == ({}, ())


def test_what_was_recorded_is_a_trace_file(robot: Robot, tmp_path: Path) -> None:
    robot.episode(Turn(_usage(100)), Turn(_usage(30)))
    traces = _record(robot, tmp_path).traces
    write_traces(tmp_path / "t.jsonl", traces)
    assert read_traces(tmp_path / "t.jsonl") == traces


def test_a_task_of_several_lines_becomes_one(robot: Robot, tmp_path: Path) -> None:
    robot.episode(Turn(_usage(100)), task="pick up\n\tthe milk\x07 " + 3000 * "now ")
    traces = _record(robot, tmp_path).traces
    assert traces[0].task.startswith("pick up the milk now now")
    write_traces(tmp_path / "t.jsonl", traces)


def test_a_shorter_prompt_keeps_what_is_left_of_it(robot: Robot, tmp_path: Path) -> None:
    robot.episode(Turn(_usage(1000, 1000)), Turn(_usage(50, 450)))
    (trace,) = _record(robot, tmp_path).traces
    assert trace.turns[1].kept_tokens == 400
    assert trace.prompt_tokens == (1000, 450)


def test_a_template_that_adds_words_changes_what_is_new(robot: Robot, tmp_path: Path) -> None:
    robot.episode(Turn(_usage(100, 100)), Turn(_usage(30, 140)))
    (trace,) = _record(robot, tmp_path).traces
    assert (trace.turns[1].new_tokens, trace.turns[1].kept_tokens) == (33, None)


def test_whole_prompts_alone_are_enough_while_they_grow(robot: Robot, tmp_path: Path) -> None:
    robot.episode(Turn(_usage(None, 100)), Turn(_usage(None, 137)))
    assert _record(robot, tmp_path).traces[0].turns[1].new_tokens == 30


def test_estimated_counts_are_labelled(robot: Robot, tmp_path: Path) -> None:
    robot.episode(Turn(TokenUsage(output_tokens=3, new_tokens=9, estimated=True)))
    recording = _record(robot, tmp_path)
    assert recording.traces[0].tokens_estimated
    assert recording.notes == ("token counts are estimated: the brain has no tokenizer",)


@pytest.mark.parametrize(
    ("turns", "reason"),
    [
        ([Turn(None)], "turn 0 reports no token counts"),
        ([Turn(_usage(10, output=None))], "turn 0 reports no output token count"),
        ([Turn(_usage(10, output=0))], "turn 0 reports 0 output tokens"),
        ([Turn(_usage(0))], "turn 0 reports 0 new tokens"),
        ([Turn(_usage(9)), Turn(_usage(None, 3))], "the prompt of turn 1 is not longer"),
        ([Turn(_usage(9)), Turn(_usage(9), fails=True), Turn(_usage(9))], "turn 1 is missing"),
        ([], "it had no turn"),
    ],
)
def test_what_is_unknown_is_not_made_up(
    robot: Robot, tmp_path: Path, turns: list[Turn], reason: str
) -> None:
    robot.episode(*turns)
    recording = _record(robot, tmp_path)
    assert recording.traces == ()
    assert next(iter(recording.left_out.values())).startswith(reason)


def test_an_episode_that_still_runs_is_left_out(robot: Robot, tmp_path: Path) -> None:
    robot.episode(Turn(_usage(10)), ends=False)
    assert list(_record(robot, tmp_path).left_out.values()) == [
        "it had not ended when the files were read"
    ]


@pytest.mark.parametrize(("outcome", "success"), [("failure", False), ("aborted", None)])
def test_an_outcome_that_is_none_is_unknown(
    robot: Robot, tmp_path: Path, outcome: str, success: bool | None
) -> None:
    robot.episode(Turn(_usage(10)), outcome=outcome)
    assert _record(robot, tmp_path).traces[0].success is success


def test_a_file_that_still_grows_is_noted(robot: Robot, tmp_path: Path) -> None:
    robot.episode(Turn(_usage(10)))
    robot.telemetry.shutdown()
    with next(tmp_path.glob("*.jsonl")).open("a") as file:
        file.write('{"resourceSp')
    recording = record(tmp_path)
    assert len(recording.traces) == 1
    assert "half a line" in recording.notes[0]


def test_a_folder_without_traces_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="trace"):
        record(tmp_path)
