"""Runs turns on an AsyncLLM, inside the worker process: one task per turn.

Called on the worker's event loop only. A turn becomes part of its episode's transcript when the
front end says so (`commit`), and not before: whatever happens to it until then leaves nothing
behind, and the next attempt is drafted from the same tokens.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from typing import Any

from robot_sdk.clock import SYSTEM_CLOCK, pause
from robot_sdk.errors import (
    CancelledByServerError,
    InternalServerError,
    InvalidArgumentError,
    RobotSdkError,
    to_detail,
)
from server.brain.checks import check_event
from server.brain.codec import event_to_json
from server.brain.interface import EngineInfo, Event, Finished, FinishReason
from server.brain.rendering.interface import OutputParser
from server.brain.rendering.token_transcript import check_output
from server.brain.vllm_engine.episodes import Answer, HostedEpisode, HostedEpisodes
from server.brain.vllm_engine.generation import engine_input, generate
from server.brain.vllm_engine.model import HostedModel
from server.brain.vllm_engine.refresh import PrefixRefresher
from server.brain.vllm_engine.requests import SamplingDefaults, priority, sampling_arguments
from server.brain.vllm_engine.seen_prefix import seen_prompt
from server.brain.vllm_engine.stats import LoadLogger
from server.brain.vllm_engine.turn_frame import HostedTurn, decode_turn
from server.brain.vllm_engine.usage import timing, token_usage
from server.worker.framing import Frame
from server.worker.stream import FrameStream

_log = logging.getLogger(__name__)

#: vLLM's other reasons ("abort", "error", ...) are no answer.
_FINISH_REASONS: dict[str, FinishReason] = {"stop": "stop", "length": "length"}


class Host:
    """See the module.

    Args:
        engine: vLLM's AsyncLLM.
        info: What the front end is told of it.
        delay_s: Added to every turn; reported as modelled.
        stream: To the front end.
    """

    def __init__(
        self,
        engine: Any,
        info: EngineInfo,
        model: HostedModel,
        sampling: SamplingDefaults,
        load_logger: LoadLogger,
        stream: FrameStream,
        delay_s: float,
    ) -> None:
        self._engine = engine
        self._model = model
        self._sampling = sampling
        self._load_logger = load_logger
        self._stream = stream
        self._delay_s = delay_s
        self._episodes = HostedEpisodes(model.new_transcript)
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._refresher = PrefixRefresher(
            engine, info, self._episodes, model.renderer.image_token_id, stream
        )

    def handle(self, frame: Frame) -> None:
        """Do what a frame of the front end says."""
        header = frame.header
        operation = header["op"]
        if operation == "turn":
            number = header["turn"]
            work = self._run(number, frame, SYSTEM_CLOCK.now_s())
            self._tasks[number] = asyncio.get_running_loop().create_task(work)
        elif operation == "cancel":
            task = self._tasks.get(header["turn"])
            if task is not None:
                # Behind the task's first step, if it still has that to come: a task that is
                # cancelled before it never runs, so that nobody would be told of the turn's end and
                # its pictures would be missing for good.
                asyncio.get_running_loop().call_soon(task.cancel)
        elif operation == "commit":
            self._episodes.commit(header["episode"], header["turn_index"])
        elif operation == "end_episode":
            self._episodes.end(header["episode"])
        elif operation == "refresh":
            self._refresher.begin(header["refresh"], header["episode"])
        elif operation == "cancel_refresh":
            self._refresher.cancel(header["refresh"])

    def send_load(self) -> None:
        """Tell the front end the engine's newest gauges and counters."""
        load = self._load_logger.load(self._engine.get_num_unfinished_requests())
        self._stream.send({"op": "load", "load": vars(load)})

    async def _run(self, number: int, frame: Frame, received_s: float) -> None:
        error: RobotSdkError | None = None
        try:
            await self._turn(number, decode_turn(frame), received_s)
        except asyncio.CancelledError:
            error = CancelledByServerError("the turn was cancelled")
        except RobotSdkError as raised:
            error = raised
        except Exception as raised:
            if self._engine.errored:
                # The process is about to end, and the front end fails this turn with all others.
                return
            error = _translated(raised)
        finally:
            del self._tasks[number]
        self.send_load()
        body = b"" if error is None else to_detail(error).SerializeToString()
        self._stream.send({"op": "end", "turn": number}, body)

    async def _turn(self, number: int, turn: HostedTurn, received_s: float) -> None:
        episode = self._episodes.begin(turn)
        await pause(self._delay_s)
        draft = episode.transcript.draft(turn.messages, turn.tools)
        prompt = await engine_input(self._engine, draft.token_ids, draft.images, episode.pictures)
        num_prompt_tokens = len(prompt["prompt_token_ids"])
        parser = self._model.parser(episode, turn.turn_index)
        output_ids: list[int] = []
        cached_tokens: int | None = None
        outputs = self._outputs(number, turn, episode, prompt)
        async with aclosing(outputs):
            async for output in outputs:
                completion = output.outputs[0]
                if not output_ids:
                    episode.seen = seen_prompt(draft, num_prompt_tokens, turn.trace_headers)
                output_ids.extend(completion.token_ids)
                if output.num_cached_tokens is not None:
                    cached_tokens = output.num_cached_tokens
                for event in parser.feed(completion.text, completion.token_ids):
                    self._emit(number, event)
        finish_reason = self._finish(number, completion.finish_reason, output_ids, parser)
        episode.answer = Answer(turn.turn_index, draft, output_ids, num_prompt_tokens)
        usage = token_usage(
            prompt_tokens=num_prompt_tokens,
            cached_tokens=cached_tokens,
            output_tokens=len(output_ids),
            expected_prefix_tokens=draft.expected_prefix_tokens,
            num_images=len(draft.images),
        )
        times = timing(output.metrics, received_s, self._delay_s)
        self._emit(number, Finished(finish_reason, usage, times, draft.dropped_turns))

    def _outputs(self, number: int, turn: HostedTurn, episode: HostedEpisode, prompt: Any) -> Any:
        room_tokens = self._model.max_model_len - len(prompt["prompt_token_ids"])
        return generate(
            self._engine,
            prompt,
            sampling_arguments(turn.sampling, self._sampling, max(room_tokens, 1)),
            self._model.structured_outputs(episode),
            f"{turn.episode_id}-{turn.turn_index}-{number}",
            priority=priority(turn.slack_s, SYSTEM_CLOCK.now_s()),
            trace_headers=turn.trace_headers,
        )

    def _finish(
        self, number: int, reason: str | None, output_ids: list[int], parser: OutputParser
    ) -> FinishReason:
        """Tell what the answer held, and check that it may become history."""
        finish_reason = _FINISH_REASONS.get(reason or "")
        if finish_reason is None:
            raise CancelledByServerError(f"vLLM gave up the turn (finish reason {reason})")
        check_output(self._model.renderer, output_ids)
        parsed = parser.finish(finish_reason)
        if parsed.problem is not None:
            _log.info("an answer holds a tool call that cannot be used: %s", parsed.problem)
        for event in (*parsed.events, *parsed.tool_calls):
            self._emit(number, event)
        return finish_reason

    def _emit(self, number: int, event: Event) -> None:
        check_event(event)
        self._stream.send({"op": "event", "turn": number, "event": event_to_json(event)})


def _translated(error: Exception) -> RobotSdkError:
    from vllm.exceptions import VLLMClientError

    if isinstance(error, VLLMClientError):
        return InvalidArgumentError(f"vLLM refused the turn: {error}")
    _log.error("a turn failed", exc_info=error)
    return InternalServerError("the brain failed; the server's log says why")
