"""A brain that calls fixed tools, and policies with faults of their own, for whole episodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from robot_sdk.clock import SYSTEM_CLOCK
from robot_sdk.spec import ObservationKey
from server.brain.interface import EngineInfo, Event, Text, ToolCall, Turn
from server.policy.interface import PolicyInput, PolicyOutput
from tests.fakes.policies import BadOutputPolicy, StepPolicy, spec


def _sleep(duration_s: float) -> None:
    SYSTEM_CLOCK.sleep_until(SYSTEM_CLOCK.now_s() + duration_s)


class ScriptedBrain:
    """Calls `calls[i]` = [tool, arguments as JSON] in turn i, the last one in every later turn.

    Turn i takes `delays_s[i]`, and the last delay again in every later turn. Every run of a turn
    adds a line to `effects_file`: what a turn did to the world, which a replay must not repeat.
    """

    info = EngineInfo(engine="scripted", model="scripted-1")

    def __init__(
        self,
        calls: Sequence[Sequence[str]],
        delays_s: Sequence[float] = (0.0,),
        effects_file: str = "",
    ) -> None:
        self._calls = calls
        self._delays_s = delays_s
        self._effects_file = effects_file

    def decide(self, turn: Turn, is_cancelled: Callable[[], bool]) -> Iterator[Event]:
        index = turn.turn_index
        if self._effects_file:
            with Path(self._effects_file).open("a") as effects:
                effects.write(f"{turn.episode_id} {index}\n")
        _sleep(self._delays_s[min(index, len(self._delays_s) - 1)])
        name, arguments_json = self._calls[min(index, len(self._calls) - 1)]
        yield ToolCall(f"call-{index}", name, arguments_json)


class TickingBrain:
    """Says the newest text over and over, once a millisecond, `num` times."""

    info = EngineInfo(engine="ticking", model="ticking-1")

    def __init__(self, num: int) -> None:
        self._num = num

    def decide(self, turn: Turn, is_cancelled: Callable[[], bool]) -> Iterator[Event]:
        word = turn.messages[-1].text + " "
        for _ in range(self._num):
            _sleep(0.001)
            yield Text(word)


class HiccupPolicy(StepPolicy):
    """Inference number `at` (from 0) takes `slow_s`; all others take `delay_s`."""

    def __init__(self, at: int, slow_s: float, delay_s: float = 0.0, **options: int) -> None:
        super().__init__(delay_s, **options)
        self._at = at
        self._slow_s = slow_s
        self._count = 0

    def infer(self, batch: Sequence[PolicyInput]) -> Sequence[PolicyOutput]:
        if self._count == self._at:
            _sleep(self._slow_s)
        self._count += 1
        return super().infer(batch)


class InstructionPolicy(StepPolicy):
    """Every action is the length of the instruction."""

    def _chunk(self, item: PolicyInput) -> np.ndarray:
        return np.full_like(super()._chunk(item), len(item.instruction))


class LateLoadPolicy(StepPolicy):
    """Takes `load_s` to load."""

    def __init__(self, load_s: float, **options: int) -> None:
        _sleep(load_s)
        super().__init__(**options)


class BadChunkPolicy(BadOutputPolicy):
    """BadOutputPolicy for a robot with one joint."""

    def __init__(self, kind: str, **options: int) -> None:
        super().__init__(kind)
        self.spec = spec(**options)


class KeepingPolicy(StepPolicy):
    """Writes what arrives to `folder`: SEQUENCE.npz, and the instruction to instruction.txt."""

    def __init__(self, folder: str) -> None:
        super().__init__(action_dim=1)
        self._folder = Path(folder)
        keys = {
            "observation/state": ("float32", (0,)),
            "observation/flags": ("bool", (2, 3)),
            "observation/number": ("float64", ()),
            "observation/nothing": ("uint8", (0, 4, 4, 3)),
            "observation/grid": ("int16", (0, 0)),
        }
        self.spec = replace(
            self.spec,
            observation_keys=(
                *(ObservationKey(name, *key) for name, key in keys.items()),
                ObservationKey("images/camera", "uint8", (8, 12), is_image=True),
            ),
        )

    def infer(self, batch: Sequence[PolicyInput]) -> Sequence[PolicyOutput]:
        for item in batch:
            assert all(array.flags.writeable for array in item.tensors.values())
            np.savez(self._folder / f"{item.sequence}.npz", **item.tensors, **item.images)
            (self._folder / "instruction.txt").write_text(item.instruction, newline="")
        return super().infer(batch)
