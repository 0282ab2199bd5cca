"""The study's 80 trajectories: its published figures, and those of the ones we replay."""

from __future__ import annotations

from collections.abc import Sequence

from sim.fleet.workload.figures import draw_growth
from sim.fleet.workload.generator import generate
from sim.fleet.workload.marginals import Marginal, marginals
from sim.fleet.workload.suites import SUITES
from sim.fleet.workload.trace import EpisodeTrace
from sim.paper.case import Case, Picture, Workplace
from sim.paper.plot import pyplot
from sim.paper.rows import Row, seed_row

CLOCK_QUANTITIES = ("p50", "p90", "max")
#: What the generator holds; see `sim.fleet.workload.generator`.
WITHIN = 0.03

_NOTES = (
    "The study's trajectories are not public. Ours are drawn so that they have its published "
    "figures: small differences here say that the replays start from the right load, and nothing "
    "about the server.",
    "The published figures fit each other but for one: with 60k tokens at turn 5, a straight line "
    "to the median peak (89.5k) over the median 17 turns, an object_swap episode would read 1.11M "
    "tokens in all, 4% over the study's 1.07M; a spatial_swap one would read 3% under its 1.27M. "
    "The generator keeps totals and peaks and lets the context at turn 5 differ by suite: 53k to "
    "62k.",
    "Not published, so chosen: how far episodes of one suite are apart, the first prompt (20k "
    "tokens), which turns see pictures, and which gap follows which turn; the docstring of "
    "sim.fleet.workload.generator says how.",
    "Mean output and mean new tokens are not published either. 27,000 generated and 700,000 "
    "computed tokens a minute at 2.40 requests/s (the study's N=20) are 188 and 4,861 a request.",
)


def run(workplace: Workplace) -> None:
    """Leaves workload.json and workload.png."""
    seeds = workplace.seeds(usual=20, quick=3)
    drawn = [generate(seed) for seed in seeds]
    rows = [*marginal_rows(drawn, clocks=False), *growth_rows(drawn)]
    picture = Picture(
        "workload.png", "prompt over brain turn: median and quartiles of each suite", figure=2
    )
    _draw(workplace, picture.file, drawn[0])
    workplace.write_case(
        "workload",
        rows,
        settings={"seeds": seeds, "generator": "sim.fleet.workload.generator.generate"},
        pictures=[picture],
        notes=list(_NOTES),
    )


def marginal_rows(drawn: Sequence[Sequence[EpisodeTrace]], *, clocks: bool) -> list[Row]:
    """A row for each published figure, of the workload or of its clocks; one draw a seed."""
    by_seed = [
        [of for of in marginals(traces) if (of.quantity in CLOCK_QUANTITIES) == clocks]
        for traces in drawn
    ]
    return [_row(of_seeds) for of_seeds in zip(*by_seed, strict=True)]


def _row(of_seeds: Sequence[Marginal]) -> Row:
    first = of_seeds[0]
    return seed_row(
        first.row,
        first.quantity,
        "share" if first.quantity == "zero_step_fraction" else first.unit,
        first.study,
        [of.ours for of in of_seeds],
        kind="computed",
        note="from the tokens a minute of the study's N=20" if first.derived else "",
        within=WITHIN,
    )


def growth_rows(drawn: Sequence[Sequence[EpisodeTrace]]) -> list[Row]:
    """What the study says in words of how contexts grow."""
    long_family = SUITES[-1].family
    at_turn_5 = [_median([trace.prompt_tokens[4] for trace in traces]) for traces in drawn]
    longest = [
        float(max(trace.prompt_tokens[-1] for trace in traces if trace.task_family == long_family))
        for traces in drawn
    ]
    return [
        seed_row(
            "all",
            "context_at_turn_5_p50",
            "tokens",
            60_000,
            at_turn_5,
            kind="computed",
            note='"about 60k" in the study, read off a curve',
            within=0.05,
        ),
        seed_row(
            SUITES[-1].study_name,
            "longest_context",
            "tokens",
            (180_000, None),
            longest,
            kind="computed",
            note='"past 180k" in the study',
            within=0.0,
        ),
    ]


def _median(values: Sequence[int]) -> float:
    ordered = sorted(values)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def _draw(workplace: Workplace, file: str, traces: Sequence[EpisodeTrace]) -> None:
    plt = pyplot()
    figure, axes = plt.subplots(figsize=(8, 5), layout="constrained")
    draw_growth(axes, traces)
    axes.plot([5], [60], "k+", markersize=12)
    axes.annotate("the study: about 60k by turn 5", (5, 60), (8, -14), textcoords="offset points")
    axes.axhline(180, color="k", linewidth=0.6, linestyle=":")
    axes.annotate("the study: long tasks pass 180k", (1, 182), fontsize=9)
    axes.set_title("one draw; a line ends where fewer than four episodes are left", fontsize=10)
    figure.savefig(workplace.folder / file, dpi=120)
    plt.close(figure)
    workplace.say(f"wrote {workplace.folder / file}")


CASE = Case("the 80 trajectories: every published figure, and growth of contexts", 0.1, run, 0.05)
