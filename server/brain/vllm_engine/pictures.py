"""Pictures of one episode, and what of them vLLM has to be shown again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from server.brain.interface import StoredImage
from server.brain.rendering.image_decoding import decode
from server.brain.rendering.interface import ImageRef


class EpisodePictures:
    """Keeps the bytes as they came; decodes a picture when vLLM has to have it.

    vLLM keeps what it made of a picture under the id it was given. An old one is then named and not
    decoded, hashed or sent again; only if vLLM has let go of it, everything is shown once more.
    """

    def __init__(self) -> None:
        self._stored: dict[str, StoredImage] = {}
        self._shown: set[str] = set()

    def add(self, images: Mapping[str, StoredImage]) -> None:
        self._stored.update(images)

    def inputs(self, images: Sequence[ImageRef], everything: bool = False) -> dict[str, Any]:
        """What goes into vLLM's prompt beside the tokens.

        Args:
            images: All pictures of the prompt, in order.
            everything: Also those that vLLM was shown before.
        """
        if not images:
            return {}
        ids = [image.image_id for image in images]
        return {
            "multi_modal_data": {
                "image": [
                    None if name in self._shown and not everything else self._decoded(name)
                    for name in ids
                ]
            },
            "multi_modal_uuids": {"image": ids},
        }

    def any_shown(self, images: Sequence[ImageRef]) -> bool:
        """Whether `inputs` names one of these pictures without showing it."""
        return any(image.image_id in self._shown for image in images)

    def shown(self, images: Sequence[ImageRef]) -> None:
        """VLLM has taken a prompt with these pictures."""
        self._shown.update(image.image_id for image in images)

    def _decoded(self, name: str) -> Any:
        from PIL import Image

        return Image.fromarray(decode(self._stored[name], name))
