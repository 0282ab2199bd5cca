"""The cliff of the tiny engine: table, JSON and picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from robot_sdk.trace.timeline import new_figure
from server.capacity.cliff.carousel import Tally
from server.capacity.cliff.ledger_counters import LedgerCount
from server.core.capacity import KvPool, cliff_sessions, session_blocks, sessions_that_fit

FORMAT = "robot-cliff-tiny/1"


@dataclass(frozen=True)
class Phase:
    """One load on the tiny engine.

    Attributes:
        cap: Of the door; None: none.
        ledger: What the server's ledger counted, read from outside.
        tally: What the robots saw.
    """

    num_robots: int
    cap: int | None
    num_inside: int
    num_waiting: int
    ledger: LedgerCount
    tally: Tally
    wall_s: float

    @property
    def name(self) -> str:
        """For example "N14" or "N14_K8"."""
        return f"N{self.num_robots}" + ("" if self.cap is None else f"_K{self.cap}")

    @property
    def agrees(self) -> bool:
        """Ledger and robots counted the same."""
        counted = self.ledger.hits + self.ledger.misses
        return (self.ledger.hits, counted) == (self.tally.kept, self.tally.counted)


def render(phases: Sequence[Phase], pool: KvPool, start_s: float, wall_s: float) -> str:
    """The table for a person."""
    context = phases[0].tally.longest_context_tokens
    fit = sessions_that_fit(pool, session_blocks(pool, context))
    lines = [
        f"pool: {pool.num_blocks} blocks of {pool.block_tokens} tokens; contexts grow from "
        f"{phases[0].tally.warm_context_tokens:.0f} to {context} tokens",
        f"planner: {fit} sessions fit by the count of blocks, cliff at "
        f"{cliff_sessions(pool, context):.1f} by the estimate",
        "",
        "  robots  cap  inside  waiting  survival  ledger hits  robots' own count  seconds",
    ]
    for phase in phases:
        survival = phase.ledger.survival
        counted = phase.ledger.hits + phase.ledger.misses
        lines.append(
            f"  {phase.num_robots:>6}  {'-' if phase.cap is None else phase.cap:>3}  "
            f"{phase.num_inside:>6}  {phase.num_waiting:>7}  "
            f"{'-' if survival is None else format(survival, '.3f'):>8}  "
            f"{f'{phase.ledger.hits}/{counted}':>11}  "
            f"{f'{phase.tally.kept}/{phase.tally.counted}':>17}  {phase.wall_s:>7.1f}"
        )
    lines += ["", f"{wall_s:.0f} s, {start_s:.0f} s of them to start the server"]
    return "\n".join(lines)


def to_json(phases: Sequence[Phase], pool: KvPool, start_s: float, wall_s: float) -> dict[str, Any]:
    """The content of cliff-tiny.json."""
    return {
        "format": FORMAT,
        "pool_blocks": pool.num_blocks,
        "block_tokens": pool.block_tokens,
        "start_s": round(start_s, 1),
        "wall_s": round(wall_s, 1),
        "rows": [
            {
                "row": phase.name,
                "quantity": "full-prefix survival",
                "unit": "share of turns after the first",
                "ours": phase.ledger.survival,
            }
            for phase in phases
        ],
        "phases": [asdict(phase) for phase in phases],
    }


def draw(phases: Sequence[Phase], pool: KvPool, path: Path) -> None:
    """Write a PNG of survival over robots.

    Raises:
        MissingExtraError: matplotlib is not installed.
        OSError: The file cannot be written.
    """
    figure = new_figure(9.0, 5.0)
    axes = figure.add_subplot()
    counted = [
        (phase, phase.ledger.survival) for phase in phases if phase.ledger.survival is not None
    ]
    axes.plot(
        [phase.num_robots for phase, _ in counted if phase.cap is None],
        [survival for phase, survival in counted if phase.cap is None],
        marker="o",
        color="#3b6bb5",
        label="everybody comes in",
    )
    for phase, survival in counted:
        if phase.cap is not None:
            axes.plot(
                [phase.num_robots],
                [survival],
                marker="s",
                linestyle="none",
                color="#3f9a6b",
                label=f"at most {phase.cap} inside at once",
            )
    context = phases[0].tally.longest_context_tokens
    axes.axvline(
        sessions_that_fit(pool, session_blocks(pool, context)) + 0.5,
        color="#c0392b",
        linestyle=":",
        label="as many as fit, by the planner's count",
    )
    axes.set_title(f"A tiny model with {pool.num_blocks} blocks of {pool.block_tokens} tokens")
    axes.set_xlabel("robots, revisited in cyclic order")
    axes.set_ylabel("share of turns that found their whole prefix")
    axes.set_ylim(-0.05, 1.05)
    axes.grid(alpha=0.3)
    axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
