"""One request at vLLM: from the tokens of a prompt to the last of its outputs."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from server.brain.rendering.interface import ImageRef
from server.brain.vllm_engine.pictures import EpisodePictures

_log = logging.getLogger(__name__)


async def engine_input(
    engine: Any,
    token_ids: Sequence[int],
    images: Sequence[ImageRef],
    pictures: EpisodePictures,
) -> Any:
    """The prompt as vLLM's engine takes it, placeholders of pictures expanded.

    Pictures that vLLM had before are named only. If it has let go of one of them, all are shown.

    Args:
        engine: vLLM's AsyncLLM.
        token_ids: Of the prompt, one placeholder per picture.
        images: Its pictures, in the order of their placeholders.
        pictures: What is known of them.

    Returns:
        vLLM's EngineInput; `["prompt_token_ids"]` is what the model will see.
    """
    from vllm.inputs import TokensPrompt

    async def render(everything: bool) -> Any:
        extra = pictures.inputs(images, everything)
        prompt = TokensPrompt(prompt_token_ids=list(token_ids), **extra)
        (rendered,) = await engine.renderer.render_cmpl_async([prompt])
        return rendered

    try:
        rendered = await render(everything=False)
    except Exception as error:
        # Its words for "not in my cache" are no interface, so a real fault is simply met again.
        if not pictures.any_shown(images):
            raise
        _log.info("vLLM may have let go of an older picture (%s); all are shown again", error)
        rendered = await render(everything=True)
    pictures.shown(images)
    return rendered


async def generate(
    engine: Any,
    prompt: Any,
    sampling: Mapping[str, Any],
    structured_outputs: Any,
    request_id: str,
    *,
    priority: int,
    trace_headers: Mapping[str, str],
) -> AsyncGenerator[Any, None]:
    """VLLM's RequestOutputs, each with what is new since the one before.

    When this is closed early, the request is aborted, and closing returns only when the engine has
    really let go of it.
    """
    from vllm.sampling_params import RequestOutputKind, SamplingParams

    params = SamplingParams(
        **sampling,
        structured_outputs=structured_outputs,
        output_kind=RequestOutputKind.DELTA,
    )
    finished = False
    try:
        outputs = engine.generate(
            prompt,
            params,
            request_id,
            priority=priority,
            trace_headers=dict(trace_headers) or None,
        )
        async with aclosing(outputs):
            async for output in outputs:
                finished = output.finished
                yield output
    finally:
        if not finished and not engine.errored:
            # The engine answers in order: behind the abort, between two of its steps.
            await engine.is_sleeping()
