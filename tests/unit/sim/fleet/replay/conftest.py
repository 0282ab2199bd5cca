from __future__ import annotations

from collections.abc import Callable

import pytest

from server.core.admission import AdmissionPolicy, UnlimitedAdmission
from sim.fleet.event_loop import EventLoop
from sim.fleet.replay.replay import FleetReplay
from sim.fleet.replay.result import ReplayResult
from sim.fleet.replay.settings import EngineChoice, ReplaySettings
from sim.fleet.workload.trace import EpisodeTrace, TurnTrace
from tests.fakes.replay_brain import BLOCK_TOKENS, FakeBrain

ENGINE = EngineChoice(pool_blocks=1000, block_tokens=BLOCK_TOKENS, num_state_groups=0)


def trace(num_turns: int = 3, env_steps: int = 20, **turn: object) -> EpisodeTrace:
    """Turns of 250 new and 50 output tokens, one second of the robot's own time after each."""
    one = TurnTrace(**{"new_tokens": 250, "output_tokens": 50, "env_steps": env_steps, **turn})  # type: ignore[arg-type]
    return EpisodeTrace("t", "family", (one,) * num_turns)


class Played:
    """A replay without vLLM: its loop, its brain and its result."""

    def __init__(
        self,
        settings: ReplaySettings,
        traces: list[EpisodeTrace] | None = None,
        policy: AdmissionPolicy | None = None,
        on_progress: Callable[[float], None] | None = None,
        **brain: object,
    ) -> None:
        self.loop = EventLoop()
        self.brain = FakeBrain(self.loop, **brain)  # type: ignore[arg-type]
        order = iter((traces or [trace()]) * 10_000)
        self.fleet = FleetReplay(
            settings, self.loop, self.brain, policy or UnlimitedAdmission(), order
        )
        self.was_interrupted = self.fleet.run(on_progress)

    @property
    def result(self) -> ReplayResult:
        return self.fleet.result(7, "none", self.was_interrupted, 0.0)


@pytest.fixture
def engine() -> EngineChoice:
    return ENGINE
