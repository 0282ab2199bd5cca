"""Policies for fault tests, loaded by the server under test as `factory`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from robot_sdk.clock import SYSTEM_CLOCK
from robot_sdk.spec import ActionDimension, ObservationKey, PolicySpec
from server.policy.interface import PolicyInput, PolicyOutput


def spec(horizon: int = 10, action_dim: int = 7, image_px: int = 0) -> PolicySpec:
    """A policy that wants a state of any length and, if `image_px`, two square pictures."""
    images = [
        ObservationKey(f"images/{name}", "uint8", (image_px, image_px), is_image=True)
        for name in ("agentview", "wrist")
    ]
    return PolicySpec(
        name="fake",
        version="1",
        action_dimensions=tuple(
            ActionDimension(f"a{i}", "1", "none", "absolute", -1000.0, 1000.0)
            for i in range(action_dim)
        ),
        control_hz=20.0,
        horizon=horizon,
        executed_steps=max(1, horizon // 2),
        observation_keys=(
            ObservationKey("observation/state", "float32", (0,)),
            *(images if image_px else []),
        ),
        stand_in=True,
        note="for tests",
    )


class StepPolicy:
    """Returns at row i the control step it belongs to, after `delay_s` of blocking work."""

    def __init__(
        self,
        delay_s: float = 0.0,
        first_delay_s: float = 0.0,
        horizon: int = 10,
        action_dim: int = 7,
        image_px: int = 0,
        embodiments: Sequence[str] = (),
    ) -> None:
        self.spec = replace(spec(horizon, action_dim, image_px), embodiments=tuple(embodiments))
        self._delays_s = [first_delay_s] if first_delay_s else []
        self._delay_s = delay_s

    def infer(self, batch: Sequence[PolicyInput]) -> Sequence[PolicyOutput]:
        delay_s = self._delays_s.pop() if self._delays_s else self._delay_s
        if delay_s:
            SYSTEM_CLOCK.sleep_until(SYSTEM_CLOCK.now_s() + delay_s)
        return [PolicyOutput(self._chunk(item)) for item in batch]

    def _chunk(self, item: PolicyInput) -> np.ndarray:
        steps = (item.control_step + np.arange(self.spec.horizon)) % 1000
        return np.repeat(steps[:, None], self.spec.action_dim, axis=1).astype(np.float32)


class BadOutputPolicy(StepPolicy):
    """Returns what `kind` says instead of a chunk, until the control step reaches 100."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self._kind = kind

    def infer(self, batch: Sequence[PolicyInput]) -> Sequence[PolicyOutput]:
        return [
            PolicyOutput(self._bad() if item.control_step < 100 else self._chunk(item))
            for item in batch
        ]

    def _bad(self) -> object:
        if self._kind == "raise":
            raise RuntimeError("the model is broken: secret detail")
        return {
            "empty": np.zeros((0, 7), np.float32),
            "flat": np.zeros(7, np.float32),
            "wide": np.zeros((10, 8), np.float32),
            "ragged": [[0.0] * 7] * 9 + [[0.0] * 6],
            "nan": np.full((10, 7), np.nan, np.float32),
            "limits": np.full((10, 7), 5000.0, np.float32),
            "none": None,
        }[self._kind]


class DyingPolicy(StepPolicy):
    """Ends its process when it sees control step 666."""

    def infer(self, batch: Sequence[PolicyInput]) -> Sequence[PolicyOutput]:
        if any(item.control_step == 666 for item in batch):
            os._exit(9)
        return super().infer(batch)


class HangingPolicy(StepPolicy):
    """Never answers an observation of control step 666."""

    def infer(self, batch: Sequence[PolicyInput]) -> Sequence[PolicyOutput]:
        while any(item.control_step == 666 for item in batch):
            SYSTEM_CLOCK.sleep_until(SYSTEM_CLOCK.now_s() + 60.0)
        return super().infer(batch)


class BrokenPolicy:
    """Cannot be loaded."""

    def __init__(self) -> None:
        raise ValueError("no such checkpoint: x.safetensors")


class SlowLoadPolicy(StepPolicy):
    """Takes `load_s` to load."""

    def __init__(self, load_s: float) -> None:
        super().__init__()
        SYSTEM_CLOCK.sleep_until(SYSTEM_CLOCK.now_s() + load_s)


class ForkingPolicy(StepPolicy):
    """Forks a child at loading that lives on for `child_s`, as data loaders do.

    The child holds whatever the worker had open. It writes its process id to `pid_file`.
    """

    def __init__(self, pid_file: str, child_s: float) -> None:
        super().__init__()
        if Path(pid_file).exists():
            return  # only the first worker
        if os.fork() == 0:
            Path(pid_file).write_text(str(os.getpid()))
            SYSTEM_CLOCK.sleep_until(SYSTEM_CLOCK.now_s() + child_s)
            os._exit(0)


class SlowOncePolicy(StepPolicy):
    """Takes `slow_s` for the first batch that holds a control step of at least `from_step`."""

    def __init__(self, from_step: int, slow_s: float, **options: Any) -> None:
        super().__init__(**options)
        self._from_step: int | None = from_step
        self._slow_s = slow_s

    def infer(self, batch: Sequence[PolicyInput]) -> Sequence[PolicyOutput]:
        latest = max(item.control_step for item in batch)
        if self._from_step is not None and latest >= self._from_step:
            self._from_step = None
            SYSTEM_CLOCK.sleep_until(SYSTEM_CLOCK.now_s() + self._slow_s)
        return super().infer(batch)


class OutOfMemoryPolicy(StepPolicy):
    """Has no memory for a batch that holds control step 666; `kind` says whose class tells so."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self._error = {
            "host": MemoryError,
            "device": type("OutOfMemoryError", (RuntimeError,), {}),
        }[kind]

    def infer(self, batch: Sequence[PolicyInput]) -> Sequence[PolicyOutput]:
        if any(item.control_step == 666 for item in batch):
            raise self._error("cannot allocate 9 GiB: secret detail")
        return super().infer(batch)


class SeeingPolicy(StepPolicy):
    """The first row tells what came: numbers that change with values and their order."""

    def infer(self, batch: Sequence[PolicyInput]) -> Sequence[PolicyOutput]:
        return [PolicyOutput(self._seen(item)) for item in batch]

    def _seen(self, item: PolicyInput) -> np.ndarray:
        arrays = [item.tensors["observation/state"], *item.images.values()]
        rows = np.zeros((self.spec.horizon, self.spec.action_dim), np.float32)
        rows[0, : len(arrays)] = [fingerprint(array) for array in arrays]
        return rows


def fingerprint(array: np.ndarray) -> float:
    """A number from 0 to 999 that other values, another order or another shape change."""
    flat = np.asarray(array, np.float64).ravel()
    weights = np.arange(1, len(flat) + 1) % 97
    return float(np.float32(round(float(flat @ weights) + sum(array.shape)) % 1000))
