"""The prompt: instruction and state as tokens."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import sentencepiece
from numpy.typing import NDArray

from robot_sdk.errors import InvalidArgumentError
from server.policy.pi05.prompt_encoder import PromptEncoder

#: Bins that a normalised number of the state falls into. 256 from -1 to 1; what lies below is -1,
#: what lies above 255: the convention that all public checkpoints were trained with.
_NUM_STATE_BINS = 256
_BIN_EDGES = np.linspace(-1.0, 1.0, _NUM_STATE_BINS + 1)[:-1]


class Tokenizer:
    """A SentencePiece model file, such as PaliGemma's.

    Args:
        path: The `.model` file.
        vocabulary_size: Rows of the model's embedding table; the file may have fewer pieces.

    Raises:
        InvalidArgumentError: The file cannot be read, has no token for a beginning, or has more
            pieces than the model has embeddings.
    """

    def __init__(self, path: Path, vocabulary_size: int) -> None:
        try:
            # From bytes: the library prints to standard error when it opens files itself.
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=path.read_bytes())
        except (OSError, RuntimeError) as error:
            raise InvalidArgumentError(
                f"the tokenizer cannot be read: {error}",
                field="tokenizer",
                value=path,
                allowed=("a SentencePiece .model file",),
            ) from error
        if self._processor.bos_id() < 0:
            raise InvalidArgumentError(
                "the tokenizer has no token for the beginning", field="tokenizer", value=path
            )
        if self._processor.get_piece_size() > vocabulary_size:
            raise InvalidArgumentError(
                "the tokenizer has more pieces than the model has embeddings",
                field="tokenizer",
                value=self._processor.get_piece_size(),
                allowed=(f"{vocabulary_size} or fewer",),
            )
        pieces = self._processor.id_to_piece(list(range(self._processor.get_piece_size())))
        #: Characters that one token stands for at most.
        self.longest_piece = max(map(len, pieces))

    @property
    def begin(self) -> int:
        """Id of the token that begins a prompt."""
        return int(self._processor.bos_id())

    def encode(self, text: str) -> list[int]:
        """Ids of a text, without beginning or end."""
        return list(self._processor.encode(text))


def bin_state(state: NDArray[np.float32]) -> list[int]:
    """The bin of each normalised number."""
    return [int(index) for index in np.digitize(state, _BIN_EDGES) - 1]


def render_prompt(template: str, instruction: str, state: NDArray[np.float32] | None) -> str:
    """The prompt in words.

    Args:
        template: With {task}, and {state} if `state` is given.
        instruction: As the robot sent it. Underscores and line breaks become spaces, as in the
            training of the public checkpoints.
        state: Normalised, (width,).
    """
    task = instruction.strip().replace("_", " ").replace("\n", " ")
    told = "" if state is None else " ".join(map(str, bin_state(state)))
    return template.format(task=task, state=told)


def encode_prompt(tokenizer: PromptEncoder, text: str, end: str, max_tokens: int) -> list[int]:
    """Ids of a prompt, beginning included.

    Raises:
        InvalidArgumentError: It is longer than the model has places. It is not cut: the state
            stands at the end, and a robot that moves without it moves wrongly.
    """
    # Turning a megabyte into tokens takes a second, which all robots of the batch would wait for.
    if len(text) > max_tokens * tokenizer.longest_piece:
        raise _too_long(f"{len(text)} characters", max_tokens)
    ids = [tokenizer.begin, *tokenizer.encode(text), *(tokenizer.encode(end) if end else ())]
    if len(ids) > max_tokens:
        raise _too_long(f"{len(ids)} tokens", max_tokens)
    return ids


def _too_long(found: str, max_tokens: int) -> InvalidArgumentError:
    return InvalidArgumentError(
        "the instruction makes a prompt that is longer than the policy takes",
        field="instruction",
        value=found,
        allowed=(f"{max_tokens} tokens or fewer, state included",),
    )
