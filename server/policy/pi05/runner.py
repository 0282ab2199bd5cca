"""Runs batches of any size through the model, in shapes that are known in advance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robot_sdk.clock import SYSTEM_CLOCK, Clock
from server.policy.pi05.bucket import Bucket, Shape
from server.policy.pi05.graphs import GraphRecorder
from server.policy.pi05.model import Pi05Model
from server.policy.pi05.pixels import prepare_pictures
from server.policy.pi05.stage_timer import StageTimer


@dataclass(frozen=True)
class Row:
    """One robot's inputs.

    Attributes:
        pictures: One (H, W, 3) uint8 per camera, any size.
        tokens: Ids of the prompt, at most `Shape.num_tokens`.
        noise: (horizon, action_width), float32.
    """

    pictures: tuple[NDArray[np.uint8], ...]
    tokens: Sequence[int]
    noise: NDArray[np.float32]


@dataclass(frozen=True)
class RunResult:
    """Attributes:
    actions: Normalised, (rows, horizon, action_width), float32.
    vision_s: Pictures to tokens, resizing included, seconds for the whole batch.
    prefill_s: Prefix to keys and values.
    denoise_s: All Euler steps.
    """

    actions: NDArray[np.float32]
    vision_s: float
    prefill_s: float
    denoise_s: float


class Runner:
    """The model and its buckets.

    Args:
        model: With weights.
        shape: What all batches have in common.
        rotate_180: For each camera, whether its pictures are turned upside down.
        antialias: See `pixels.prepare_pictures`.
        num_steps: Euler steps.
        buckets: Batch sizes, increasing. A batch runs in the smallest that holds it, a larger one
            than the largest in several. Empty: every batch in its own size.
        prefix_batch: Most rows that go through vision and prefix at once.
        use_graphs: Record CUDA graphs. Needs a GPU.
        compile_model: Let torch compile the three parts; the first batches of each size take
            minutes.
        clock: Measures stages where there is no GPU.
    """

    def __init__(
        self,
        model: Pi05Model,
        shape: Shape,
        *,
        rotate_180: Sequence[bool],
        antialias: bool,
        num_steps: int,
        buckets: Sequence[int] = (),
        prefix_batch: int = 4,
        use_graphs: bool = False,
        compile_model: bool = False,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._model = model
        self._shape = shape
        self._rotate_180 = tuple(rotate_180)
        self._antialias = antialias
        self._sizes = tuple(buckets)
        self._prefix_batch = prefix_batch
        self._recorder = GraphRecorder() if use_graphs else None
        self._clock = clock
        self._buckets: dict[int, Bucket] = {}
        if compile_model:
            for part in (model.vision, model.prefix, model.expert):
                part.compile(dynamic=False)
        with torch.inference_mode():
            self._modulation = model.modulation(num_steps)

    def warm_up(self, sizes: Sequence[int]) -> None:
        """Make the buckets for these batch sizes now, and run each once."""
        with torch.inference_mode():
            for size in sizes:
                bucket = self._bucket(size)
                bucket.see(size)
                bucket.read(size)
                bucket.act()

    def run(self, rows: Sequence[Row]) -> RunResult:
        """All rows, in order.

        Raises:
            torch.cuda.OutOfMemoryError: The device has no room for this batch. Buckets that have
                been made stay usable.
        """
        most = self._sizes[-1] if self._sizes else len(rows)
        parts = [self._run(rows[start : start + most]) for start in range(0, len(rows), most)]
        if len(parts) == 1:
            return parts[0]
        return RunResult(
            np.concatenate([part.actions for part in parts]),
            sum(part.vision_s for part in parts),
            sum(part.prefill_s for part in parts),
            sum(part.denoise_s for part in parts),
        )

    @torch.inference_mode()
    def _run(self, rows: Sequence[Row]) -> RunResult:
        bucket, num_rows = self._bucket(len(rows)), len(rows)
        timer = StageTimer(self._model.device, self._clock)
        timer.mark()
        self._fill(bucket, rows)
        bucket.see(num_rows)
        timer.mark()
        bucket.read(num_rows)
        timer.mark()
        bucket.act()
        timer.mark()
        actions = bucket.actions[:num_rows].cpu().numpy()
        return RunResult(actions.copy(), *timer.durations_s())

    def _fill(self, bucket: Bucket, rows: Sequence[Row]) -> None:
        num_rows, device = len(rows), self._model.device
        pictures = prepare_pictures(
            [picture for row in rows for picture in row.pictures],
            self._model.config.vision.image_px,
            self._rotate_180 * num_rows,
            self._antialias,
            device,
        )
        bucket.pictures[:num_rows].copy_(pictures.unflatten(0, (num_rows, -1)))
        tokens = np.zeros((num_rows, self._shape.num_tokens), dtype=np.int64)
        for index, row in enumerate(rows):
            tokens[index, : len(row.tokens)] = row.tokens
        lengths = np.array([len(row.tokens) for row in rows], dtype=np.int64)
        bucket.set_prompts(self._upload(tokens), self._upload(lengths))
        bucket.noise[:num_rows].copy_(self._upload(np.stack([row.noise for row in rows])))

    def _upload(self, values: NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(values).to(self._model.device)

    def _bucket(self, num_rows: int) -> Bucket:
        size = next((size for size in self._sizes if size >= num_rows), num_rows)
        if size not in self._buckets:
            self._buckets[size] = Bucket(
                self._model,
                self._modulation,
                self._shape,
                size,
                min(self._prefix_batch, size),
                self._recorder,
            )
        return self._buckets[size]
