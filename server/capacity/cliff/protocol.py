"""The study's cliff experiment, on an engine without a model.

Warm N independent sessions, revisit them in a fixed cyclic order with new tokens each, and count
the sessions whose whole earlier prefix was still cached.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from robot_sdk.errors import InvalidArgumentError
from server.capacity.engine import EngineSettings, SchedulerOnlyEngine, SessionBlocks, Turn
from server.core.capacity import KvPool
from server.core.residency import is_full_prefix_hit

WarmUp = Literal["batch", "sequential"]
WARM_UPS: tuple[WarmUp, ...] = ("batch", "sequential")


@dataclass(frozen=True)
class Cell:
    """One run of the experiment.

    Attributes:
        warm_up: "batch" hands all sessions in at once, "sequential" one after the other.
        step_tokens, retention_tokens: See `EngineSettings`.
        new_tokens: What each visit adds.
        output_tokens: Tokens generated at a warm-up and at a visit. With 1 nothing is decoded, as
            the protocol asks for; the last sampled token is never in a cache.
        num_rounds: Visits of every session.
    """

    pool_blocks: int
    num_sessions: int
    warm_up: WarmUp
    step_tokens: int = 16_384
    retention_tokens: int | None = 0
    block_tokens: int = 784
    num_state_groups: int = 3
    context_tokens: int = 100_000
    new_tokens: int = 3_300
    output_tokens: int = 1
    num_rounds: int = 2

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


@dataclass(frozen=True)
class Outcome:
    """What a cell gave.

    Attributes:
        kept_by_round: Sessions with their whole prefix, round by round.
        kept: Sessions that kept it in every round.
        recomputed_tokens: Tokens of the earlier prefixes that had to be computed again.
        prefill_pieces: Steps that a session's warm-up took part in, on average. In "align" mode
            each of them but the last ends on a block boundary and stores a state there.
    """

    cell: Cell
    kept_by_round: tuple[int, ...]
    kept: int
    recomputed_tokens: int
    prefill_pieces: float

    @property
    def survival(self) -> float:
        """Share of the sessions that kept their whole prefix."""
        return self.kept / self.cell.num_sessions

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            **self.cell.to_json(),
            "kept_by_round": list(self.kept_by_round),
            "kept": self.kept,
            "survival": self.survival,
            "recomputed_tokens": self.recomputed_tokens,
            "prefill_pieces": self.prefill_pieces,
        }


@dataclass
class _Session:
    name: str
    blocks: SessionBlocks
    prompt_tokens: int
    kept_always: bool = True


def run_cell(
    cell: Cell, make_engine: Callable[[EngineSettings], SchedulerOnlyEngine] = SchedulerOnlyEngine
) -> Outcome:
    """Run one cell.

    Raises:
        InvalidArgumentError: A value is out of range, or a session does not fit into the pool.
    """
    if cell.num_sessions < 1 or cell.num_rounds < 1 or cell.warm_up not in WARM_UPS:
        raise InvalidArgumentError(
            "a cell needs sessions, rounds and a known warm-up", field="cell", value=cell
        )
    engine = make_engine(
        EngineSettings(
            KvPool(cell.pool_blocks, cell.block_tokens, cell.num_state_groups),
            step_tokens=cell.step_tokens,
            retention_tokens=cell.retention_tokens,
        )
    )
    sessions = [
        _Session(f"s{index}", SessionBlocks(f"s{index}", cell.block_tokens), cell.context_tokens)
        for index in range(cell.num_sessions)
    ]
    prefill_pieces = _warm_up(engine, sessions, cell) / cell.num_sessions
    kept_by_round = []
    recomputed_tokens = 0
    for number in range(cell.num_rounds):
        kept = 0
        for session in sessions:
            expected_tokens = session.prompt_tokens + cell.output_tokens
            session.prompt_tokens = expected_tokens + cell.new_tokens
            cached_tokens = _visit(engine, session, f"{session.name}-{number}", cell.output_tokens)
            hit = is_full_prefix_hit(
                cached_tokens=cached_tokens,
                expected_prefix_tokens=expected_tokens,
                block_tokens=cell.block_tokens,
                prompt_tokens=expected_tokens - cell.output_tokens,
                snapshot_interval_tokens=engine.settings.snapshot_interval_tokens,
            )
            kept += hit
            session.kept_always &= hit
            recomputed_tokens += max(0, expected_tokens - cached_tokens)
        kept_by_round.append(kept)
    return Outcome(
        cell,
        tuple(kept_by_round),
        sum(session.kept_always for session in sessions),
        recomputed_tokens,
        prefill_pieces,
    )


def _warm_up(engine: SchedulerOnlyEngine, sessions: list[_Session], cell: Cell) -> int:
    """Returns the number of pieces that the prompts were computed in."""
    num_pieces = 0
    for session in sessions:
        engine.add(
            Turn(f"{session.name}-warm", session.prompt_tokens, cell.output_tokens, session.blocks)
        )
        if cell.warm_up == "sequential":
            num_pieces += _run_counting(engine)
    return num_pieces + _run_counting(engine)


def _run_counting(engine: SchedulerOnlyEngine) -> int:
    num_pieces = 0
    while engine.num_turns:
        num_pieces += sum(piece.is_prefill for piece in engine.step().scheduled)
    return num_pieces


def _visit(engine: SchedulerOnlyEngine, session: _Session, name: str, output_tokens: int) -> int:
    engine.add(Turn(name, session.prompt_tokens, output_tokens, session.blocks))
    (turn,) = engine.run()
    return turn.cached_tokens
