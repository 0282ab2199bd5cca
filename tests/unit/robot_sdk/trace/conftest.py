"""Traces with known figures, written through the real telemetry of two processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from robot_sdk import telemetry
from robot_sdk.clock import VirtualClock
from robot_sdk.telemetry import attributes as attr
from robot_sdk.telemetry import spans


@dataclass
class Turn:
    """One turn of a synthetic episode.

    Attributes:
        latency_s: Of the brain call; 90% of it on the server.
        steps: Control steps of its one tool, at 20 Hz.
        wall_s: Length of the tool.
        chunks: Number of chunks in the tool, each 0.2 s round trip.
    """

    latency_s: float
    steps: int
    wall_s: float
    chunks: int = 0
    tool: str = "move_to"
    starved_ticks: int = 0
    is_error: bool = False


@dataclass
class Run:
    """Writes episodes of one robot and its server into a folder."""

    folder: Path
    server_offset_s: float = 1000.0
    modelled_delay_s: float | None = None
    with_server: bool = True
    service: str = "robot-0"
    clock: VirtualClock = field(default_factory=lambda: VirtualClock(50.0))

    def __post_init__(self) -> None:
        self.server_clock = VirtualClock(self.clock.now_s() + self.server_offset_s)
        self.robot = telemetry.start(self.service, self.folder, clock=self.clock)
        self.server = telemetry.start(
            "server", self.folder if self.with_server else None, clock=self.server_clock
        )

    def episode(
        self, turns: Sequence[Turn], *, episode_id: str = "ep-1", finish: bool = True
    ) -> telemetry.OpenSpan:
        episode = self.robot.start_span(
            attr.SPAN_EPISODE,
            attributes=spans.episode(
                robot_id=self.service,
                episode_id=episode_id,
                task="pick up the milk",
                suite="libero_object_swap",
                control_hz=20.0,
                pace="lockstep",
                queued_s=0.25,
                clock_offset_s=self.server_offset_s,
                clock_bound_s=0.0005,
            ),
        )
        previous: Turn | None = None
        for index, turn in enumerate(turns):
            self._turn(episode, index, turn, previous)
            previous = turn
        if finish:
            episode.end(
                attributes=spans.episode_end(
                    outcome="success",
                    reason="task done",
                    acted_ticks=sum(turn.steps - turn.starved_ticks for turn in turns),
                    starved_ticks=sum(turn.starved_ticks for turn in turns),
                    start_wait_ticks=0,
                    idle_ticks=3,
                    policy_steps=sum(turn.steps for turn in turns if turn.chunks),
                    scripted_steps=sum(turn.steps for turn in turns if not turn.chunks),
                )
            )
        return episode

    def close(self) -> None:
        self.robot.shutdown()
        self.server.shutdown()

    def _turn(
        self, episode: telemetry.OpenSpan, index: int, turn: Turn, previous: Turn | None
    ) -> None:
        span = self.robot.start_span(
            attr.SPAN_TURN, parent=episode, attributes=spans.turn(turn_index=index)
        )
        decide = self.robot.start_span(attr.SPAN_DECIDE, parent=span)
        started_s = self.clock.now_s()
        server_s = 0.9 * turn.latency_s
        self.clock.advance(turn.latency_s)
        self._served(attr.SPAN_SERVER_DECIDE, decide, started_s + 0.05 * turn.latency_s, server_s)
        attributes = spans.decide(turn_index=index, engine="demo-planner")
        attributes |= {
            attr.GEN_AI_INPUT_TOKENS: 1000 * (index + 1),
            attr.TOKENS_NEW: 1000,
            attr.TOKENS_ESTIMATED: True,
            attr.BRAIN_SERVER_S: server_s,
            attr.BRAIN_NETWORK_S: turn.latency_s - server_s,
            attr.BRAIN_QUEUE_S: 0.1 * turn.latency_s,
            attr.BRAIN_PREFILL_S: 0.5 * turn.latency_s,
        }
        if self.modelled_delay_s is not None:
            attributes[attr.BRAIN_MODELLED_DELAY_S] = self.modelled_delay_s
        if previous is not None:
            attributes |= spans.gap(
                env_steps=previous.steps, control_hz=20.0, wall_s=previous.wall_s
            )
        decide.end(attributes=attributes)

        tool = self.robot.start_span(spans.tool_span_name(turn.tool), parent=span)
        tool_start_s = self.clock.now_s()
        for sequence in range(turn.chunks):
            chunk = self.robot.start_span(attr.SPAN_CHUNK, parent=tool)
            chunk_start_s = self.clock.now_s()
            self.clock.advance(0.2)
            self._served(attr.SPAN_SERVER_CHUNK, chunk, chunk_start_s + 0.01, 0.18)
            chunk.end(
                attributes={
                    **spans.chunk(sequence=sequence, control_step=10 * sequence, rows=10),
                    attr.CHUNK_ROUND_TRIP_S: 0.2,
                    attr.CHUNK_NETWORK_S: 0.02,
                    attr.CHUNK_BATCH_WAIT_S: 0.03,
                    attr.CHUNK_INFER_S: 0.14,
                    attr.CHUNK_VISION_S: 0.04,
                    attr.CHUNK_DENOISE_S: 0.09,
                }
            )
        self.clock.sleep_until(tool_start_s + turn.wall_s)
        tool.end(
            attributes=spans.tool(
                name=turn.tool,
                is_error=turn.is_error,
                steps=turn.steps,
                starved_ticks=turn.starved_ticks,
            )
        )
        span.end()

    def _served(
        self, name: str, parent: telemetry.OpenSpan, start_s: float, duration_s: float
    ) -> None:
        context = telemetry.parent_from(telemetry.trace_context(parent))
        start_s += self.server_offset_s
        self.server.record_span(name, start_s, start_s + duration_s, parent=context)


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., Run]:
    def make(**arguments: object) -> Run:
        return Run(tmp_path / "run", **arguments)  # type: ignore[arg-type]

    return make


@pytest.fixture
def turn() -> type[Turn]:
    return Turn
