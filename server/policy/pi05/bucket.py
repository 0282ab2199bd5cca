"""Memory and stages for one size of batch, with the same shapes every time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from server.policy.pi05.expert import Modulation
from server.policy.pi05.graphs import GraphRecorder, Stage
from server.policy.pi05.model import Pi05Model

#: Places of the cache are rounded up to a multiple of this: attention kernels want aligned masks.
_PLACES_ALIGNMENT = 8


@dataclass(frozen=True)
class Shape:
    """What does not depend on the batch.

    Attributes:
        num_cameras: Views.
        num_tokens: Places for the prompt.
        horizon: Action rows.
    """

    num_cameras: int
    num_tokens: int
    horizon: int


class Bucket:
    """A batch of `size` rows.

    The prefix is bound by arithmetic and the denoising by reading weights: the first gains nothing
    from large batches and the second everything. So pictures and prompts go through in groups of
    rows, of which only those that hold robots are run, and all rows are denoised together.

    Attributes:
        pictures: (size, cameras, 3, px, px), float32 in [-1, 1].
        tokens: (size, num_tokens), ids.
        mask: (size, places), True where the cache may be seen.
        noise, actions: (size, horizon, action_width), float32.
    """

    def __init__(
        self,
        model: Pi05Model,
        modulation: Modulation,
        shape: Shape,
        size: int,
        group_size: int,
        recorder: GraphRecorder | None,
    ) -> None:
        config, device = model.config, model.device
        self.size = size
        self._model = model
        self._modulation = modulation
        self._group_size = group_size
        self._num_seen = shape.num_cameras * config.vision.num_patches
        self._num_prefix = self._num_seen + shape.num_tokens
        num_places = self._num_prefix + shape.horizon
        num_places += -num_places % _PLACES_ALIGNMENT
        px = config.vision.image_px
        self.pictures = torch.zeros(size, shape.num_cameras, 3, px, px, device=device)
        self.tokens = torch.zeros(size, shape.num_tokens, dtype=torch.long, device=device)
        self.mask = torch.zeros(size, num_places, dtype=torch.bool, device=device)
        self.mask[:, : self._num_seen] = True
        self.mask[:, -shape.horizon :] = True
        self.noise = torch.zeros(size, shape.horizon, config.action_width, device=device)
        self.actions = torch.zeros_like(self.noise)
        self._seen = torch.zeros(
            size, self._num_seen, config.prefix.width, dtype=model.dtype, device=device
        )
        self._cache = model.new_cache(size, num_places)
        starts = range(0, size, group_size)
        self._see = [self._stage(partial(self._see_group, start), recorder) for start in starts]
        self._read = [self._stage(partial(self._read_group, start), recorder) for start in starts]
        self._act = self._stage(self._act_all, recorder)

    def set_prompts(self, tokens: Tensor, lengths: Tensor) -> None:
        """Write the prompts of the first rows.

        Args:
            tokens: (n, num_tokens), padded.
            lengths: (n,), valid tokens of each.
        """
        num_rows, num_tokens = tokens.shape
        self.tokens[:num_rows].copy_(tokens)
        places = torch.arange(num_tokens, device=tokens.device)
        self.mask[:num_rows, self._num_seen : self._num_prefix].copy_(places < lengths[:, None])

    def see(self, num_rows: int) -> None:
        """Pictures of the first rows to tokens."""
        for stage in self._see[: self._num_groups(num_rows)]:
            stage()

    def read(self, num_rows: int) -> None:
        """Prefix of the first rows into the cache."""
        for stage in self._read[: self._num_groups(num_rows)]:
            stage()

    def act(self) -> None:
        """Noise to actions, all rows."""
        self._act()

    def _num_groups(self, num_rows: int) -> int:
        return -(-num_rows // self._group_size)

    @staticmethod
    def _stage(stage: Stage, recorder: GraphRecorder | None) -> Stage:
        return stage if recorder is None else recorder.record(stage)

    def _see_group(self, start: int) -> None:
        rows = slice(start, start + self._group_size)
        self._seen[rows].copy_(self._model.see(self.pictures[rows]))

    def _read_group(self, start: int) -> None:
        rows = slice(start, start + self._group_size)
        self._model.read(
            self._seen[rows],
            self.tokens[rows],
            self.mask[rows, : self._num_prefix],
            self._cache[:, :, rows],
        )

    def _act_all(self) -> None:
        self.actions.copy_(self._model.act(self.noise, self._modulation, self._cache, self.mask))
