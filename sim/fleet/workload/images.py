"""Pictures among what is new, so that a prompt holds as many as the study's."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sim.fleet.workload.quantiles import normal_scores, strata

#: Of all calls: pictures in the prompt, P50 and maximum (facts.json, workload.images_per_call).
MEDIAN_IMAGES = 21
MOST_IMAGES = 141

#: Fitted: spread of pictures per token between episodes. The episode with the longest prompt has
#: the most pictures, about twice as many a token as half of the others: the study's two figures
#: (21 at 78k tokens, 141 at most where 214.7k tokens are the most) say so.
_DENSITY_SPREAD = 0.25
#: A tool's few words bring no picture.
_LEAST_TOKENS = 900
_BISECTIONS = 50


def draw_images(new_tokens: Sequence[np.ndarray], rng: np.random.Generator) -> list[np.ndarray]:
    """New pictures of each turn of each episode."""
    density = np.exp(_DENSITY_SPREAD * rng.permutation(normal_scores(strata(len(new_tokens)))))
    seen = [np.cumsum(np.where(new >= _LEAST_TOKENS, new, 0)) for new in new_tokens]
    longest = int(np.argmax([new.sum() for new in new_tokens]))

    def in_prompts(scale: float) -> list[np.ndarray]:
        counts = [
            np.floor(tokens * own * scale).astype(int)
            for tokens, own in zip(seen, density, strict=True)
        ]
        counts[longest] = np.floor(seen[longest] * ((MOST_IMAGES + 0.5) / seen[longest][-1]))
        return [np.minimum(count, MOST_IMAGES).astype(int) for count in counts]

    low, high = 0.0, 1e-2
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        few = np.median(np.concatenate(in_prompts(middle))) < MEDIAN_IMAGES
        low, high = (middle, high) if few else (low, middle)
    return [np.diff(count, prepend=0) for count in in_prompts(high)]
