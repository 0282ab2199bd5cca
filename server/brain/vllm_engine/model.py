"""The model's side of a conversation: how it is written and how its answers are read."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from server.brain.rendering.interface import (
    ContextPolicy,
    OutputParser,
    Renderer,
    ToolCallMode,
)
from server.brain.rendering.load import RendererOptions, load_renderer
from server.brain.rendering.output_parser import VllmOutputParsers
from server.brain.rendering.structured import structured_outputs
from server.brain.rendering.token_transcript import TokenTranscript
from server.brain.vllm_engine.episodes import HostedEpisode

#: Of the context, at most this share is kept free for the answer.
_MAX_ANSWER_SHARE = 0.25
#: Lists of tools whose grammar is kept. Robots of one kind have the same.
_MAX_GRAMMARS = 64


class HostedModel:
    """Renderer, parsers and grammars of the model that vLLM has loaded.

    Attributes:
        max_model_len: Longest context, tokens.

    Args:
        engine: vLLM's AsyncLLM.
        load: The worker's `load` frame, see `server.brain.vllm_engine.settings`.

    Raises:
        RobotSdkError: The chat template or a parser cannot be used; says why.
    """

    def __init__(self, engine: Any, load: Mapping[str, Any]) -> None:
        config = engine.model_config
        tokenizer = engine.get_tokenizer()
        self.max_model_len: int = config.max_model_len
        self.takes_images: bool = config.is_multimodal_model
        processor = None
        if self.takes_images:
            processor = engine.renderer.get_mm_processor().info.get_hf_processor()
        options = RendererOptions(
            chat_template=load["chat_template"],
            variables=load["chat_template_kwargs"],
            trust_remote_code=config.trust_remote_code,
        )
        self.renderer: Renderer = load_renderer(config.model, options, tokenizer, processor)
        self._parsers = VllmOutputParsers(
            tokenizer,
            load["tool_call_parser"],
            load["reasoning_parser"],
            self.renderer.generation_prompt,
            load["chat_template_kwargs"],
        )
        self._tool_calls: ToolCallMode = load["tool_calls"]
        answer_tokens = min(load["max_output_tokens"], int(self.max_model_len * _MAX_ANSWER_SHARE))
        self._policy = ContextPolicy(
            mode=load["context_policy"],
            max_prompt_tokens=self.max_model_len - answer_tokens,
            max_images=load["max_images"],
            keep_share=load["compact_to_share"],
        )
        self._grammars: dict[tuple[Any, ...], Any] = {}

    def new_transcript(self) -> TokenTranscript:
        """For a new episode."""
        return TokenTranscript(self.renderer, self._policy)

    def parser(self, episode: HostedEpisode, turn_index: int) -> OutputParser:
        """Reads the answer to one turn."""
        return self._parsers.for_turn(episode.tools, turn_index)

    def structured_outputs(self, episode: HostedEpisode) -> Any:
        """VLLM's StructuredOutputsParams for one turn, None: the model is left free."""
        if episode.tools not in self._grammars:
            if len(self._grammars) >= _MAX_GRAMMARS:
                self._grammars.clear()
            self._grammars[episode.tools] = structured_outputs(
                self._parsers, episode.tools, self._tool_calls
            )
        # vLLM notes in it which backend it chose.
        return copy.copy(self._grammars[episode.tools])
