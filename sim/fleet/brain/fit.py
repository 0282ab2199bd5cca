"""Fit a cost model to measured latencies of single turns.

Both parts are linear in their constants, so both are least squares of relative errors.

1. A decode step of a turn alone: `step + decode * context`, from call minus first token.
2. The time to first token: `request + request_token * prompt`, and for every piece that vLLM cuts
   the prompt into `step + c * n + d * (end^2 - start^2)`; see `cost_model`.

A table of single turns says nothing about how decoding scales with the turns in a step; that
constant (`batched_decode_share`) is handed in and marked as chosen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from robot_sdk.errors import InvalidArgumentError
from server.capacity.engine import ScheduledTokens
from server.core.residency import full_prefix_boundary
from sim.fleet.brain.cost_model import CostModel
from sim.fleet.brain.cost_table import FORMAT
from sim.fleet.brain.latencies import COLUMNS, BrainLatencies

_DIGITS = 5


def fit(table: BrainLatencies, batched_decode_share: float) -> CostModel:
    """The constants that fit best.

    Raises:
        InvalidArgumentError: No constants of at least 0 fit: the table contradicts the model.
    """
    step_s, decode_s = _fit_decode(table)
    request_s, request_token_s, token_s, pair_s = _fit_first_token(table, step_s)
    return CostModel(
        step_s=step_s,
        prefill_token_s=token_s,
        prefill_pair_s=pair_s,
        decode_context_token_s=decode_s,
        batched_decode_share=batched_decode_share,
        request_s=request_s,
        request_token_s=request_token_s,
    )


def predict(cost: CostModel, table: BrainLatencies) -> dict[str, list[float]]:
    """What the model says for each place of the table, by column."""
    found: dict[str, list[float]] = {name: [] for name in COLUMNS}
    for kind in ("evicted", "retained"):
        for pieces in _all_pieces(table, kind):
            prompt_tokens = pieces[-1].end
            first_s = cost.before_engine_s(prompt_tokens)
            first_s += sum(cost.step_time_s([piece]) for piece in pieces)
            found[f"ttft_{kind}_s"].append(first_s)
            decode_s = cost.stretch_time_s([prompt_tokens], table.output_tokens - 1)
            found[f"call_{kind}_s"].append(first_s + decode_s)
    return found


def cost_table(
    table: BrainLatencies, cost: CostModel, chosen: dict[str, str], command: str
) -> dict[str, Any]:
    """The content of a cost table's file.

    Args:
        table: What was measured.
        cost: Fitted to it.
        chosen: Why constants that the table does not give have their values, by name.
        command: What made it.
    """
    rows = []
    for name, fitted in predict(cost, table).items():
        for context, measured_s, fitted_s in zip(
            table.context_tokens, getattr(table, name), fitted, strict=True
        ):
            rows.append(
                {
                    "context_tokens": context,
                    "column": name,
                    "measured_s": measured_s,
                    "fitted_s": round(fitted_s, 4),
                    "residual": round(fitted_s / measured_s - 1.0, 4),
                }
            )
    worst = max(rows, key=lambda row: abs(row["residual"]))
    return {
        "format": FORMAT,
        "name": table.name,
        "source": table.source,
        "command": command,
        "constants": asdict(cost),
        "chosen": chosen,
        "worst_residual": worst["residual"],
        "residuals": rows,
        "measured": table.to_json(),
    }


def rounded(cost: CostModel) -> CostModel:
    """As many digits as a table of latencies can be worth."""
    return CostModel(
        **{name: float(f"{value:.{_DIGITS}g}") for name, value in asdict(cost).items()}
    )


def _fit_decode(table: BrainLatencies) -> tuple[float, float]:
    rows, steps_s = [], []
    num_steps = table.output_tokens - 1
    for kind in ("evicted", "retained"):
        first, whole = getattr(table, f"ttft_{kind}_s"), getattr(table, f"call_{kind}_s")
        for pieces, first_s, whole_s in zip(_all_pieces(table, kind), first, whole, strict=True):
            rows.append([1.0, pieces[-1].end + (num_steps + 1) / 2])
            steps_s.append((whole_s - first_s) / num_steps)
    step_s, decode_s = _solve(rows, steps_s, ("step_s", "decode_context_token_s"), steps_s)
    return step_s, decode_s


def _fit_first_token(table: BrainLatencies, step_s: float) -> list[float]:
    rows, values_s, weights_s = [], [], []
    for kind in ("evicted", "retained"):
        column = getattr(table, f"ttft_{kind}_s")
        for pieces, first_s in zip(_all_pieces(table, kind), column, strict=True):
            tokens = sum(piece.end - piece.start for piece in pieces)
            pairs = sum(piece.end**2 - piece.start**2 for piece in pieces)
            rows.append([1.0, pieces[-1].end, tokens, pairs])
            values_s.append(first_s - step_s * len(pieces))
            weights_s.append(first_s)
    names = ("request_s", "request_token_s", "prefill_token_s", "prefill_pair_s")
    return _solve(rows, values_s, names, weights_s)


def _solve(
    rows: Sequence[Sequence[float]],
    values: Sequence[float],
    names: Sequence[str],
    weights: Sequence[float],
) -> list[float]:
    """Least squares of (row . constants - value) / weight."""
    scaled = np.array(rows) / np.array(weights)[:, None]
    # Columns differ by ten orders of magnitude.
    norms = np.linalg.norm(scaled, axis=0)
    found, _, rank, _ = np.linalg.lstsq(
        scaled / norms, np.array(values) / np.array(weights), rcond=None
    )
    constants = [float(value) for value in found / norms]
    wrong = [
        f"{name} = {value:.3g}"
        for name, value in zip(names, constants, strict=True)
        if not value >= 0
    ]
    if wrong or rank < len(names):
        raise InvalidArgumentError(
            "no constants of at least 0 fit this table",
            field="table",
            value=", ".join(wrong) or "contexts that are too much alike",
            hint="look for a column that was measured under load, or in another order",
        )
    return constants


def _all_pieces(table: BrainLatencies, kind: str) -> Iterator[list[ScheduledTokens]]:
    for context in table.context_tokens:
        if kind == "evicted":
            yield prefill_pieces(0, context, table.block_tokens, table.step_tokens)
            continue
        cached = full_prefix_boundary(context, table.block_tokens)
        yield prefill_pieces(
            cached, context + table.new_tokens, table.block_tokens, table.step_tokens
        )


def prefill_pieces(
    cached_tokens: int, prompt_tokens: int, block_tokens: int, step_tokens: int
) -> list[ScheduledTokens]:
    """How vLLM cuts a lone prompt of a hybrid model in "align" mode.

    Each step ends on a block's edge, one of them on the last; what is left has a step of its own.
    """
    last_edge = prompt_tokens // block_tokens * block_tokens
    pieces = []
    start = cached_tokens
    while start < prompt_tokens:
        end = min(start + step_tokens, prompt_tokens)
        if end < prompt_tokens:
            end = end // block_tokens * block_tokens
        if start < last_edge < end:
            end = last_edge
        pieces.append(ScheduledTokens("", start, end, is_prefill=True))
        start = end
    return pieces
