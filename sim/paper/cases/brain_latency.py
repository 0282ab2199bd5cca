"""What a brain turn takes with its prefix evicted and retained, by the fitted cost model.

Each cell is one turn, alone on an empty engine, through vLLM's own scheduler: cut into the pieces
that it makes, found in its cache as far as it does, and timed by the cost table. The study's side
is measured; ours is the fit to it, so the difference is the fit's residual and nothing more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sim.fleet.brain import cost_table, latencies
from sim.fleet.brain.cost_model import CostModel
from sim.fleet.brain.latencies import COLUMNS, BrainLatencies
from sim.paper.case import Case, Picture, Workplace
from sim.paper.plot import pyplot
from sim.paper.rows import Row

TABLE = "h800-tp4-qwen3.6-27b"
#: Evicted turns are computed whole, so that rounding is nothing; two decimals of 0.18 s are 3%.
WITHIN = {
    "ttft_evicted_s": 0.02,
    "call_evicted_s": 0.02,
    "ttft_retained_s": 0.07,
    "call_retained_s": 0.03,
}
_STUDY_COLUMNS = {
    "ttft_evicted_s": "ttft_evicted",
    "ttft_retained_s": "ttft_retained",
    "call_evicted_s": "call150_evicted",
    "call_retained_s": "call150_retained",
}


@dataclass(frozen=True)
class Cell:
    """One turn.

    Attributes:
        num_prompt_tokens: Its whole prompt.
        earlier_tokens: Of the turn before it in the same session; 0: there was none.
    """

    num_prompt_tokens: int
    num_output_tokens: int
    earlier_tokens: int
    block_tokens: int
    step_tokens: int
    cost: CostModel


@dataclass(frozen=True)
class Timed:
    """How long a cell took, of virtual time, and what of it was in the cache."""

    first_token_s: float
    call_s: float
    cached_tokens: int


def run(workplace: Workplace) -> None:
    """Leaves brain-latency.json and brain-latency.png."""
    measured = latencies.from_json(cost_table.read(TABLE)["measured"])
    cost = cost_table.load(TABLE)
    timed = list(workplace.map(time_turn, cells(measured, cost), "turns"))
    columns = columns_of(measured, timed)
    rows = rows_of(measured, columns)
    picture = Picture(
        "brain-latency.png", "a turn of 150 tokens over its context, evicted and retained", figure=6
    )
    _draw(workplace, measured, columns, picture.file)
    content = cost_table.read(TABLE)
    workplace.write_case(
        "brain-latency",
        rows,
        settings={
            "cost_table": TABLE,
            "constants": content["constants"],
            "fitted_with": content["command"],
            "measured": content["source"],
        },
        pictures=[picture],
        notes=[
            "The study measured its column on its GPUs; ours is what the cost model fitted to that "
            "column gives, so a difference is a residual of the fit and not a second measurement.",
            "batched_decode_share: " + content["chosen"]["batched_decode_share"] + ".",
            *slope_notes(measured),
        ],
    )


def cells(measured: BrainLatencies, cost: CostModel) -> list[Cell]:
    """Evicted turns, then retained ones, by rising context."""
    made = []
    for is_retained in (False, True):
        for context in measured.context_tokens:
            made.append(
                Cell(
                    num_prompt_tokens=context + is_retained * measured.new_tokens,
                    num_output_tokens=measured.output_tokens,
                    earlier_tokens=context * is_retained,
                    block_tokens=measured.block_tokens,
                    step_tokens=measured.step_tokens,
                    cost=cost,
                )
            )
    return made


def time_turn(cell: Cell) -> Timed:
    """Serve one turn on an engine of its own."""
    from server.capacity.engine import EngineSettings, SchedulerOnlyEngine, SessionBlocks, Turn
    from server.core.capacity import KvPool
    from sim.fleet.brain.brain_tier import BrainTier, BrainTurn
    from sim.fleet.event_loop import EventLoop

    pool = KvPool(1000, cell.block_tokens, num_state_groups=3)
    engine = SchedulerOnlyEngine(EngineSettings(pool, step_tokens=cell.step_tokens))
    loop = EventLoop()
    tier = BrainTier(loop, engine, cell.cost)
    blocks = SessionBlocks("session", cell.block_tokens)
    if cell.earlier_tokens:
        engine.add(Turn("earlier", cell.earlier_tokens, 1, blocks))
        engine.run()
    ended: list[BrainTurn] = []
    turn = Turn("turn", cell.num_prompt_tokens, cell.num_output_tokens, blocks)
    tier.submit(turn, ended.append)
    loop.run_until(3600.0)
    (done,) = ended
    return Timed(done.first_token_s, done.done_s, done.finished.cached_tokens)


def columns_of(measured: BrainLatencies, timed: Sequence[Timed]) -> dict[str, list[float]]:
    """The times by column of the table."""
    num = len(measured.context_tokens)
    evicted, retained = timed[:num], timed[num:]
    return {
        "ttft_evicted_s": [turn.first_token_s for turn in evicted],
        "ttft_retained_s": [turn.first_token_s for turn in retained],
        "call_evicted_s": [turn.call_s for turn in evicted],
        "call_retained_s": [turn.call_s for turn in retained],
    }


def rows_of(measured: BrainLatencies, columns: dict[str, list[float]]) -> list[Row]:
    """The table, and how much faster a retained turn is."""
    rows = [
        Row(
            f"context_{context}",
            _STUDY_COLUMNS[name],
            "s",
            getattr(measured, name)[index],
            columns[name][index],
            kind="computed",
            note="study: measured; ours: the fit",
            within=WITHIN[name],
        )
        for name in COLUMNS
        for index, context in enumerate(measured.context_tokens)
    ]
    for index, context in enumerate(measured.context_tokens):
        rows.append(
            Row(
                f"context_{context}",
                "call150_evicted_over_retained",
                "",
                measured.call_evicted_s[index] / measured.call_retained_s[index],
                columns["call_evicted_s"][index] / columns["call_retained_s"][index],
                kind="computed",
                within=0.05,
            )
        )
    return rows


def slope_notes(measured: BrainLatencies) -> list[str]:
    """What the table itself says of decoding."""
    steps = measured.output_tokens - 1
    slow, fast = (
        1000 * (measured.call_retained_s[index] - measured.ttft_retained_s[index]) / steps
        for index in (-1, 0)
    )
    return [
        f"Decoding alone takes {fast:.1f} to {slow:.1f} ms a token from the shortest to the "
        "longest context, most of which is the step itself."
    ]


def _draw(
    workplace: Workplace, measured: BrainLatencies, columns: dict[str, list[float]], file: str
) -> None:
    plt = pyplot()
    figure, axes = plt.subplots(1, 2, figsize=(12, 4.6), layout="constrained")
    contexts = [tokens / 1000 for tokens in measured.context_tokens]
    titles = ("time to first token", f"call of {measured.output_tokens} tokens")
    for axis, kind, title in zip(axes, ("ttft", "call"), titles, strict=True):
        for state, colour in (("evicted", "#d0701d"), ("retained", "#3b6bb5")):
            name = f"{kind}_{state}_s"
            style = "--" if state == "evicted" else "-"
            axis.plot(contexts, columns[name], style, color=colour, label=f"{state}: fitted")
            axis.plot(
                contexts,
                getattr(measured, name),
                "o",
                color=colour,
                markerfacecolor="none",
                markersize=9,
                label=f"{state}: the study, measured",
            )
            for x, y in zip(contexts, columns[name], strict=True):
                axis.annotate(
                    f"{y:.2f}",
                    (x, y),
                    textcoords="offset points",
                    xytext=(0, 9),
                    fontsize=8,
                    ha="center",
                )
        axis.set_title(title)
        axis.set_xlabel("context [1,000 tokens]")
        axis.set_ylabel("seconds")
        axis.set_ylim(0.0, 1.1 * axis.get_ylim()[1])
        axis.grid(alpha=0.3)
    axes[1].legend(loc="upper left")
    path = workplace.folder / file
    figure.savefig(path, dpi=120)
    plt.close(figure)
    workplace.say(f"wrote {path}")


CASE = Case(
    "a brain turn evicted and retained from 40k to 215k tokens, by the fitted cost", 0.2, run
)
