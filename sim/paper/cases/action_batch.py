"""What a batch of the policy takes, and why throughput is not capacity.

Nothing is measured here. The latencies are the study's own, of pi0.5 on its GPU, as the table that
our batcher and replays compute with holds them; the case says what that table makes of the batch
sizes in between, and what arithmetic makes of it.
"""

from __future__ import annotations

from server.core.batching import STUDY_TABLE
from server.core.capacity import STUDY_EXECUTED_STEPS, chunk_deadline_s, paced_by_arrival
from sim.paper import study
from sim.paper.case import Case, Picture, Workplace
from sim.paper.cases.action_capacity import row_name
from sim.paper.plot import pyplot
from sim.paper.rows import Row

PUBLISHED_BATCHES = (1, 8, 64)
RATES_HZ = (20.0, 10.0, 5.0)
#: Chunks per second as the study's write-up divides them; the last two are rounded there.
WRITE_UP_CHUNKS_PER_S = {1: 6.25, 8: 32.0, 64: 62.0}
_LATENCIES = "action_tier/batch_latency_ms_p50"
_PARTS = "action_tier/batch1_latency_ms"
_NOT_OURS = "the study's measurement on both sides: our table holds it"


def run(workplace: Workplace) -> None:
    """Leaves action-batch.json and action-batch.png."""
    rows = [*latency_rows(), parts_row(), *throughput_rows(), *capacity_rows()]
    picture = Picture(
        "action-batch.png", "latency and throughput of pi0.5 over batch size, its table", figure=4
    )
    _draw(workplace, picture.file)
    workplace.write_case(
        "action-batch",
        rows,
        settings={"latency_table": STUDY_TABLE.to_json(), "executed_steps": STUDY_EXECUTED_STEPS},
        pictures=[picture],
        notes=[_NOTE, slopes_note()],
    )


_NOTE = (
    "The latencies are the study's, not ours: no policy of this size was run here. Measure your "
    "own with `python -m server profile-policy`; batcher, planner and replay take that file."
)


def slopes_note() -> str:
    """What interpolation between the published sizes can do wrong."""
    first_ms, second_ms = (
        1000 * (STUDY_TABLE.latency_s(high) - STUDY_TABLE.latency_s(low)) / (high - low)
        for low, high in ((1, 8), (8, 64))
    )
    return (
        f"Three of the study's seven batch sizes are published. From 1 to 8 one more robot costs "
        f"{first_ms:.1f} ms, from 8 to 64 {second_ms:.1f} ms on average, so the line through them "
        "is nearly straight, and sizes in between are taken from it."
    )


def latency_rows() -> list[Row]:
    """The table at the published sizes."""
    return [
        Row(
            f"batch{batch}",
            "latency_p50",
            "s",
            float(study.value(_LATENCIES)[str(batch)]) / 1000,
            STUDY_TABLE.latency_s(batch),
            kind="computed",
            note=_NOT_OURS,
            within=0.0,
        )
        for batch in PUBLISHED_BATCHES
    ]


def parts_row() -> Row:
    """Vision, prefill and five denoising steps against the whole."""
    parts = study.value(_PARTS)
    whole_s = float(parts["total"]) / 1000
    sum_s = (parts["vision_encode"] + parts["vlm_prefill"] + 5 * parts["per_denoise_step"]) / 1000
    return Row(
        "batch1",
        "sum_of_parts",
        "s",
        whole_s,
        sum_s,
        kind="computed",
        note="vision + prefill + 5 denoising steps of the study against its own total",
        within=0.06,
    )


def throughput_rows() -> list[Row]:
    """Chunks per second: batch over latency."""
    return [
        Row(
            f"batch{batch}",
            "chunks_per_s",
            "1/s",
            WRITE_UP_CHUNKS_PER_S[batch],
            batch / STUDY_TABLE.latency_s(batch),
            kind="computed",
            note="batch / latency; the study's figure is its write-up's, rounded",
            within=0.02,
        )
        for batch in PUBLISHED_BATCHES
    ]


def capacity_rows() -> list[Row]:
    """Robots by arithmetic (best throughput over need) and by deadline (latency under D)."""
    best = max(n / STUDY_TABLE.latency_s(n) for n in range(1, STUDY_TABLE.largest_batch + 1))
    rows = []
    for hz in RATES_HZ:
        name = row_name(round(hz))
        carried = paced_by_arrival(STUDY_TABLE, hz, reserve_s=0.0)
        needed = hz / STUDY_EXECUTED_STEPS
        rows += [
            Row(
                name,
                "robots_by_throughput",
                "robots",
                None,
                float(int(best / needed)),
                kind="computed",
                note=f"{best:.1f} chunks/s at best over {needed:g} chunks/s a robot",
            ),
            Row(
                name,
                "robots_by_deadline",
                "robots",
                None,
                float(carried.robots),
                kind="computed",
                note="largest batch whose latency fits into D, all robots asking together"
                + ("; the table ends there" if carried.is_at_least else ""),
            ),
        ]
    return rows


def _draw(workplace: Workplace, file: str) -> None:
    plt = pyplot()
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
    sizes = list(range(1, STUDY_TABLE.largest_batch + 1))
    latencies_ms = [1000 * STUDY_TABLE.latency_s(n) for n in sizes]
    published = study.value(_LATENCIES)
    left.plot(sizes, latencies_ms, color="C0", linewidth=1.2, label="table, linear in between")
    left.plot(
        [int(size) for size in published],
        list(published.values()),
        linestyle="none",
        marker="o",
        color="C1",
        label="published",
    )
    for hz, style in zip(RATES_HZ, ("-", "--", ":"), strict=True):
        deadline_ms = 1000 * chunk_deadline_s(hz)
        left.axhline(deadline_ms, color="0.55", linewidth=0.8, linestyle=style)
        left.annotate(f"D at {hz:g} Hz", (1.05, deadline_ms), color="0.4", fontsize=8, va="bottom")
    left.set(xlabel="batch", ylabel="latency, p50 [ms]", title="pi0.5, 5 denoising steps")
    left.set_ylim(0, 1120)
    left.legend(loc=(0.03, 0.68), fontsize=8)

    chunks = [n / STUDY_TABLE.latency_s(n) for n in sizes]
    right.plot(sizes, chunks, color="C0", label="chunks per second, batch / latency")
    for hz, marker in zip(RATES_HZ, "sv^", strict=True):
        carried = paced_by_arrival(STUDY_TABLE, hz, reserve_s=0.0).robots
        sign = "≥ " if carried == STUDY_TABLE.largest_batch else ""
        right.plot(
            [carried],
            [carried / STUDY_TABLE.latency_s(carried)],
            linestyle="none",
            marker=marker,
            markersize=8,
            label=f"largest batch within D at {hz:g} Hz: {sign}{carried}",
        )
    right.set(xlabel="batch", ylabel="chunks per second", title="throughput is not capacity")
    right.set_ylim(0, None)
    right.legend(loc="lower right", fontsize=8)
    for axes in (left, right):
        axes.set_xscale("log", base=2)
        ticks = [1, 2, 4, 8, 16, 32, 64]
        axes.set_xticks(ticks, [str(tick) for tick in ticks])
        axes.grid(alpha=0.3)
    figure.savefig(workplace.folder / file, dpi=120)
    plt.close(figure)
    workplace.say(f"wrote {workplace.folder / file}")


CASE = Case("the study's latency of a batch, and what arithmetic makes of it", 0.05, run)
