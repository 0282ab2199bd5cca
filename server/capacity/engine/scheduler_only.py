"""An engine that schedules, caches and evicts as vLLM does, and computes nothing.

It knows no time. The caller gives each `Step` the duration that its own cost model says, and hands
in turns when its own clock says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from robot_sdk.errors import InvalidArgumentError
from server.capacity.engine import library as vllm_library
from server.capacity.engine.alike_tokens import AlikeTokens
from server.capacity.engine.library import Library
from server.capacity.engine.session_blocks import SessionBlocks
from server.capacity.engine.settings import EngineSettings


@dataclass(frozen=True)
class Turn:
    """One turn of a session.

    Attributes:
        name: Unique among the turns inside.
        num_prompt_tokens: The whole conversation so far and what is new.
        num_output_tokens: Tokens it generates before it ends.
        blocks: Names of the session's blocks; the same object for all turns of a session.
    """

    name: str
    num_prompt_tokens: int
    num_output_tokens: int
    blocks: SessionBlocks


@dataclass(frozen=True)
class ScheduledTokens:
    """What one step computes for one turn: positions `start` to `end` of its conversation.

    Attributes:
        is_prefill: They belong to the prompt, or are computed again after a preemption.
    """

    name: str
    start: int
    end: int
    is_prefill: bool


@dataclass(frozen=True)
class FinishedTurn:
    """A turn that has ended.

    Attributes:
        cached_tokens: Tokens of its prompt that the prefix cache gave back.
    """

    name: str
    cached_tokens: int
    num_prompt_tokens: int
    num_output_tokens: int


@dataclass(frozen=True)
class Step:
    """What one step computed and which turns it ended."""

    scheduled: tuple[ScheduledTokens, ...]
    started: tuple[str, ...]
    finished: tuple[FinishedTurn, ...]


@dataclass(frozen=True)
class DecodeStretch:
    """Steps ahead in which every turn inside decodes and the pool stays as it is.

    Attributes:
        num_steps: At least 1. After so many a turn ends or comes to the edge of a block.
        names: The turns, in the order in which the engine serves them.
        positions: Tokens of each that are computed now.
    """

    num_steps: int
    names: tuple[str, ...]
    positions: tuple[int, ...]


class EngineStuckError(InvalidArgumentError):
    """Nothing can be scheduled although turns wait: one of them is larger than the pool."""


class SchedulerOnlyEngine:
    """vLLM's scheduler and block pool with the model left out."""

    def __init__(self, settings: EngineSettings, library: Library | None = None) -> None:
        self.settings = settings
        self.library = vllm_library.load() if library is None else library
        self._scheduler: Any = self.library.scheduler(settings)
        self._turns: dict[str, Turn] = {}
        self._cached_tokens: dict[str, int] = {}

    @property
    def num_turns(self) -> int:
        """Turns that run or wait."""
        return len(self._turns)

    @property
    def num_running(self) -> int:
        """Turns that hold blocks of the pool."""
        return len(self._scheduler.running)

    @property
    def kv_cache_usage(self) -> float:
        """Share of the pool that running turns hold; prefixes of idle sessions do not count."""
        return float(self._scheduler.kv_cache_manager.usage)

    def add(self, turn: Turn) -> None:
        """Hand in a turn.

        Raises:
            InvalidArgumentError: Its name is taken, or it is longer than the model's context.
        """
        if turn.name in self._turns:
            raise InvalidArgumentError("this turn is inside already", field="name", value=turn.name)
        length = turn.num_prompt_tokens + turn.num_output_tokens
        longest = self.settings.max_context_tokens
        if turn.num_prompt_tokens < 1 or turn.num_output_tokens < 1 or length > longest:
            raise InvalidArgumentError(
                f"a turn of {turn.num_prompt_tokens} + {turn.num_output_tokens} tokens",
                field="prompt and output tokens",
                value=length,
                allowed=(f"at least 1 of each, at most {longest} together",),
            )
        self._turns[turn.name] = turn
        self._scheduler.add_request(
            self.library.request(
                turn.name, turn.num_prompt_tokens, turn.num_output_tokens, turn.blocks
            )
        )

    def decode_stretch(self) -> DecodeStretch | None:
        """How far decoding goes on before the engine has to look again.

        None: a turn waits or is in its prefill, or nothing is inside.
        """
        running = self._scheduler.running
        if not running or len(running) != len(self._turns):
            return None
        block_tokens = self.settings.pool.block_tokens
        num_steps = max(1, self.settings.step_tokens // len(running))
        positions = []
        for request in running:
            position = request.num_computed_tokens
            if request.num_tokens - position != 1:
                return None
            positions.append(position)
            num_steps = min(num_steps, request.max_tokens - request.num_output_tokens)
            # Blocks are taken, filled and let go of at their edges, each in a step of its own.
            offset = position % block_tokens
            num_steps = min(num_steps, max(1, block_tokens - 1 - offset) if offset else 1)
        return DecodeStretch(
            num_steps, tuple(request.request_id for request in running), tuple(positions)
        )

    def step(self, decode_steps: int = 1) -> Step:
        """Schedule one step and take it as computed. Without turns it is empty.

        With `decode_steps`, so many at once, which leave the engine as that many calls would. vLLM
        is asked to verify as many draft tokens less one of each turn, and all are accepted.

        Raises:
            EngineStuckError: Turns wait and none can ever run.
            InvalidArgumentError: More steps at once than `decode_stretch` says.
        """
        if not self._turns:
            return Step((), (), ())
        if decode_steps != 1:
            self._draft(decode_steps)
        plan = self._scheduler.schedule()
        if not plan.num_scheduled_tokens:
            self._scheduler.update_from_output(plan, self.library.model_output([], []))
            # A turn may wait for a block that another completes in the same step, but not twice.
            plan = self._scheduler.schedule()
        if not plan.num_scheduled_tokens:
            raise EngineStuckError(
                f"none of {len(self._turns)} turns fits into the pool",
                field="pool blocks",
                value=self.settings.pool.num_blocks,
            )
        scheduled = []
        sampled: list[list[int]] = []
        for name, count in plan.num_scheduled_tokens.items():
            request = self._scheduler.requests[name]
            end = request.num_computed_tokens  # schedule() has moved it on
            is_decode = count == decode_steps and end > request.num_prompt_tokens
            scheduled.append(ScheduledTokens(name, end - count, end, not is_decode))
            num_sampled = decode_steps if end >= request.num_tokens else 0
            sampled.append([AlikeTokens.TOKEN] * num_sampled)
        outputs = self._scheduler.update_from_output(
            plan, self.library.model_output(list(plan.num_scheduled_tokens), sampled)
        )
        started = tuple(new.req_id for new in plan.scheduled_new_reqs)
        return Step(tuple(scheduled), started, self._finished(outputs))

    def _draft(self, decode_steps: int) -> None:
        stretch = self.decode_stretch()
        most = 1 if stretch is None else stretch.num_steps
        if stretch is None or not 1 <= decode_steps <= most:
            raise InvalidArgumentError(
                "so many steps cannot be taken at once",
                field="decode steps",
                value=decode_steps,
                allowed=(f"1 to {most}",),
            )
        self._scheduler.update_draft_token_ids(self.library.drafts(stretch.names, decode_steps - 1))

    def run(self) -> list[FinishedTurn]:
        """Step until nothing is left; the turns in the order of their end."""
        finished: list[FinishedTurn] = []
        while self._turns:
            finished += self.step().finished
        return finished

    def _finished(self, outputs: Any) -> tuple[FinishedTurn, ...]:
        finished = []
        for client in outputs.values():
            for output in client.outputs:
                name = output.request_id
                cached_tokens = self.library.cached_tokens(output)
                if cached_tokens is not None:
                    # The first tells; after a preemption an engine may tell again.
                    self._cached_tokens.setdefault(name, cached_tokens)
                if output.finish_reason is None:
                    continue
                turn = self._turns.pop(name)
                finished.append(
                    FinishedTurn(
                        name,
                        self._cached_tokens.pop(name, 0),
                        turn.num_prompt_tokens,
                        turn.num_output_tokens,
                    )
                )
        return tuple(finished)
