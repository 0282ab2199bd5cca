"""An engine that schedules, caches and evicts as vLLM does, and computes nothing.

It knows no time. The caller gives each `Step` the duration that its own cost model says, and hands
in turns when its own clock says so.

vLLM spends most of a step on turns that decode within a block, which takes, fills and frees none.
Those are left out of the list of running requests that its scheduler goes through, and are told of
their steps together, as draft tokens that are all accepted, before one that matters to the pool
(`decoding_turn`). What a step decides, and the pool after it, is the same; tests/fidelity compares
both ways on random fleets.
"""

from __future__ import annotations

from collections.abc import Container, Set
from dataclasses import dataclass
from typing import Any

from robot_sdk.errors import InvalidArgumentError
from server.capacity.engine import library as vllm_library
from server.capacity.engine.alike_tokens import AlikeTokens
from server.capacity.engine.decoding_turn import DecodingTurn, decoding_turn
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
    """Steps ahead in which every turn inside decodes and nothing else happens.

    Attributes:
        num_steps: At least 1. The last of them may end turns; before it, none ends and the pool
            stays as it is.
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
        self._num_steps = 0
        # Of vLLM's running requests, all in their order, and those that decode.
        self._running: list[Any] = []
        self._decoding: dict[str, DecodingTurn] = {}

    @property
    def num_turns(self) -> int:
        """Turns that run or wait."""
        return len(self._turns)

    @property
    def num_running(self) -> int:
        """Turns that hold blocks of the pool."""
        return len(self._running)

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
                turn.name,
                turn.num_prompt_tokens,
                turn.num_output_tokens,
                turn.blocks.up_to(length),
            )
        )

    def decode_stretch(self) -> DecodeStretch | None:
        """How far decoding goes on before the engine has to look again.

        None: a turn waits or is in its prefill, or nothing is inside.
        """
        if not self._decoding or len(self._decoding) != len(self._turns):
            return None
        turns = [self._decoding[request.request_id] for request in self._running]
        return DecodeStretch(
            min(turn.due_step for turn in turns) - self._num_steps + 1,
            tuple(turn.name for turn in turns),
            tuple(turn.position(self._num_steps) for turn in turns),
        )

    def step(self, decode_steps: int = 1) -> Step:
        """Schedule one step and take it as computed. Without turns it is empty.

        With `decode_steps`, so many at once, which leave the engine as that many calls would.

        Raises:
            EngineStuckError: Turns wait and none can ever run.
            InvalidArgumentError: More steps at once than `decode_stretch` says.
        """
        if not self._turns:
            return Step((), (), ())
        if decode_steps != 1:
            self._check_stretch(decode_steps)
        decoded = {
            name: ScheduledTokens(name, position, position + decode_steps, is_prefill=False)
            for name, turn in self._decoding.items()
            for position in (turn.position(self._num_steps),)
        }
        self._num_steps += decode_steps - 1
        due = [turn for turn in self._decoding.values() if turn.due_step == self._num_steps]
        if due or len(self._decoding) != len(self._turns):
            return self._ask_scheduler(due, decoded)
        self._num_steps += 1
        return Step(tuple(decoded.values()), (), ())

    def run(self) -> list[FinishedTurn]:
        """Step until nothing is left; the turns in the order of their end."""
        finished: list[FinishedTurn] = []
        while self._turns:
            finished += self.step().finished
        return finished

    def _check_stretch(self, decode_steps: int) -> None:
        stretch = self.decode_stretch()
        most = 1 if stretch is None else stretch.num_steps
        if not 1 <= decode_steps <= most:
            raise InvalidArgumentError(
                "so many steps cannot be taken at once",
                field="decode steps",
                value=decode_steps,
                allowed=(f"1 to {most}",),
            )

    def _ask_scheduler(self, due: list[DecodingTurn], decoded: dict[str, ScheduledTokens]) -> Step:
        shown = self._shown(due)
        self._tell(shown)
        hidden = self._decoding.keys() - {turn.name for turn in shown}
        self._scheduler.running = [r for r in self._running if r.request_id not in hidden]
        self._limit(len(hidden))
        plan = self._scheduler.schedule()
        if not plan.num_scheduled_tokens and not hidden:
            self._scheduler.update_from_output(plan, self.library.model_output([], []))
            # A turn may wait for a block that another completes in the same step, but not twice.
            plan = self._scheduler.schedule()
            if not plan.num_scheduled_tokens:
                raise EngineStuckError(
                    f"none of {len(self._turns)} turns fits into the pool",
                    field="pool blocks",
                    value=self.settings.pool.num_blocks,
                )
        scheduled = [piece for name, piece in decoded.items() if name in hidden]
        sampled: list[list[int]] = []
        for name, count in plan.num_scheduled_tokens.items():
            request = self._scheduler.requests[name]
            end = request.num_computed_tokens  # schedule() has moved it on
            scheduled.append(
                decoded.get(name) or ScheduledTokens(name, end - count, end, is_prefill=True)
            )
            sampled.append([AlikeTokens.TOKEN] if end >= request.num_tokens else [])
        outputs = self._scheduler.update_from_output(
            plan, self.library.model_output(list(plan.num_scheduled_tokens), sampled)
        )
        self._num_steps += 1
        self._look_at_running(hidden, plan.num_scheduled_tokens)
        started = tuple(new.req_id for new in plan.scheduled_new_reqs)
        return Step(tuple(scheduled), started, self._finished(outputs))

    def _shown(self, due: list[DecodingTurn]) -> list[DecodingTurn]:
        """The decoding turns that vLLM's scheduler has to see in this step, so that it decides as
        if it saw all.

        Those are the due ones, and those that come after a prefill, which may leave no token for
        them. All of them where the pool may be too small for what runs, for then it preempts the
        last one, and where a step has hardly room for a block.
        """
        pool = self.settings.pool
        states = 2 * pool.num_state_groups
        due_names = {turn.name for turn in due}
        shown = []
        most_blocks = 0
        tokens_left = self.settings.step_tokens - len(self._decoding)
        is_after_prefill = False
        for request in self._running:
            turn = self._decoding.get(request.request_id)
            if turn is None:
                is_after_prefill = True
                num_tokens = min(tokens_left, request.num_tokens - request.num_computed_tokens)
                most_blocks += num_tokens // pool.block_tokens + 2 + states
            elif is_after_prefill or turn.name in due_names:
                shown.append(turn)
                most_blocks += 1 + states
        free_blocks = self._scheduler.kv_cache_manager.block_pool.get_num_free_blocks()
        if tokens_left < pool.block_tokens or most_blocks > free_blocks:
            return list(self._decoding.values())
        return shown

    def _limit(self, num_hidden: int) -> None:
        self.library.limit(
            self._scheduler,
            self.settings.step_tokens - num_hidden,
            self.settings.max_sequences - num_hidden,
        )

    def _tell(self, turns: list[DecodingTurn]) -> None:
        """Let vLLM take the steps of these turns that it does not know of yet."""
        group: list[DecodingTurn] = []
        num_tokens = 0
        for turn in turns:
            behind = self._num_steps - turn.told_step
            if not behind:
                continue
            if num_tokens + behind > self.settings.step_tokens:
                self._tell_group(group, num_tokens)
                group, num_tokens = [], 0
            group.append(turn)
            num_tokens += behind
        if group:
            self._tell_group(group, num_tokens)

    def _tell_group(self, group: list[DecodingTurn], num_tokens: int) -> None:
        names = [turn.name for turn in group]
        behind = [self._num_steps - turn.told_step for turn in group]
        self._scheduler.update_draft_token_ids(
            self.library.drafts(names, [steps - 1 for steps in behind])
        )
        self._scheduler.running = [turn.request for turn in group]
        # With no token left, nothing that waits is looked at.
        self.library.limit(self._scheduler, num_tokens, self.settings.max_sequences)
        plan = self._scheduler.schedule()
        sampled = [[AlikeTokens.TOKEN] * plan.num_scheduled_tokens[name] for name in names]
        self._scheduler.update_from_output(plan, self.library.model_output(names, sampled))
        for turn in group:
            turn.told_step = self._num_steps

    def _look_at_running(self, hidden: Set[str], scheduled: Container[str]) -> None:
        """Take over which requests run after a step, and which of them decode."""
        running = list(self._scheduler.running)
        if hidden:
            # Nothing is preempted while turns are hidden, so the order is as it was.
            after = {request.request_id for request in running} | hidden
            before = {request.request_id for request in self._running}
            self._running = [r for r in self._running if r.request_id in after]
            self._running += [r for r in running if r.request_id not in before]
        else:
            self._running = running
        decoding: dict[str, DecodingTurn] = {}
        for request in self._running:
            name = request.request_id
            turn = self._decoding.get(name)
            if turn is None or name not in hidden:
                turn = decoding_turn(
                    request,
                    self._num_steps,
                    self.settings.pool.block_tokens,
                    is_first=turn is None or name not in scheduled,
                )
            if turn is not None:
                decoding[name] = turn
        self._decoding = decoding

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
