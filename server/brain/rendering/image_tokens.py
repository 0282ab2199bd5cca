"""How many tokens the placeholder of a picture grows to."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from robot_sdk.errors import InvalidArgumentError

#: Tokens of a picture of this height and width, pixels.
ImageTokens = Callable[[int, int], int]

#: Sizes are remembered: a robot's cameras have few.
_MAX_SIZES = 1024


def image_tokens_of(processor: Any) -> ImageTokens:
    """The count of a Hugging Face processor, which knows the model's resizing and patches.

    Raises:
        InvalidArgumentError: The processor cannot tell the count without the picture.
    """
    count = getattr(processor, "_get_num_multimodal_tokens", None)
    if count is None:
        raise InvalidArgumentError(
            "the model's processor does not tell how many tokens a picture becomes",
            field="processor",
            value=type(processor).__name__,
            hint="say it in the configuration: a fixed number of tokens per picture",
        )

    @lru_cache(maxsize=_MAX_SIZES)
    def tokens(height: int, width: int) -> int:
        return int(count(image_sizes=[(height, width)])["num_image_tokens"][0])

    return tokens
