"""Evicted prefixes in host memory: where that takes the cliff away, and where it does not.

A model, not a measurement; `sim.fleet.brain.offload` says what it leaves out. Sustained fleets
without a cap, over the size of host memory and the bandwidth to it.

A load passes through vLLM's scheduler as if it were computed, a step's tokens at a time. With the
steps of 2,048 tokens that the study's fleets are replayed with, 100,000 tokens would take 49 steps
whatever the link, which no engine that loads would do. So these fleets have steps of 16,384, and
the cost table that fits the study's latencies with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sim.fleet.brain.offload import block_megabytes
from sim.fleet.replay.result import ReplayResult
from sim.fleet.replay.runner import Job
from sim.fleet.replay.settings import OffloadChoice, ReplaySettings
from sim.paper.case import Case, Picture, Workplace
from sim.paper.plot import pyplot
from sim.paper.replay_rows import HEALTHY_HIT, QUICK_S, capped, engine, study_value, variant_of
from sim.paper.rows import Row

DURATION_S = 1200.0
#: Shorter runs end before a fleet collapses, which is all that host memory could change.
TOO_SHORT = (
    f"Runs of {QUICK_S / 60:.0f} virtual minutes are too short for a fleet to collapse, with or "
    "without host memory: they show that the machinery works, and nothing follows from them about "
    "sizes, speeds or caps."
)
POOL_BLOCKS = 4270
STEP_TOKENS = 16_384
#: Its share of batched decoding is chosen so that with these steps the study's fleets N20, N32_K16,
#: N48_K12, N48_K16 and N48_K20 came out within 1% (pool 4,270, tasks in suite order, one seed).
COST = "h800-tp4-qwen3.6-27b-steps-16384"
ROBOTS = (32, 48)
#: The best cap of the study, for comparison: the same fleet kept out at the door instead.
CAP = 20
#: Times the pool.
HOST_POOLS = (0.5, 1.0, 2.0)
#: Over all four GPUs together: from less than half of a PCIe 4.0 x16 that they share to one for
#: each.
GIGABYTES_PER_S = (10.0, 25.0, 50.0, 100.0)
QUICK_HOST_POOLS, QUICK_GIGABYTES_PER_S = (0.5, 1.0), (10.0, 100.0)


@dataclass(frozen=True)
class Setting:
    """One run's place in the table; no host memory: (0, None)."""

    robots: int
    host_blocks: int
    gigabytes_per_s: float | None
    cap: int | None = None

    @property
    def row(self) -> str:
        """As in the study."""
        return f"N{self.robots}" + (f"_K{self.cap}" if self.cap else "")

    @property
    def words(self) -> str:
        """What differs from the study's fleet."""
        if self.gigabytes_per_s is None:
            return "no host memory"
        size_gb = self.host_blocks * block_megabytes() / 1e3
        return f"host {size_gb:.0f} GB at {self.gigabytes_per_s:g} GB/s"


def run(workplace: Workplace) -> None:
    """Leaves offload.json and offload.png."""
    version = workplace.engine_versions[0]
    base = ReplaySettings.sustained(
        ROBOTS[0],
        engine=engine(version, step_tokens=STEP_TOKENS, pool_blocks=POOL_BLOCKS),
        cost=COST,
        duration_s=QUICK_S if workplace.quick else DURATION_S,
    )
    chosen = settings_of(workplace.quick, base.engine.pool_blocks)
    jobs = [Job(_replay(base, setting), seed=0) for setting in chosen]
    results = dict(zip(chosen, workplace.replays(jobs, "offload"), strict=True))
    is_short = workplace.quick
    rows = [
        row
        for setting, result in results.items()
        for row in rows_of(setting, result, version, is_short=is_short)
    ]
    title = "requests/s and hits over the size of host memory, a model"
    picture = Picture("offload.png", f"{title}; too short to collapse" if is_short else title)
    _draw(workplace, results, base.engine.pool_blocks, picture.file, is_short=is_short)
    workplace.write_case(
        "offload",
        rows,
        settings={
            "replay": base.to_json(),
            "seeds": [0],
            "block_megabytes": block_megabytes(),
            "host_blocks": sorted({setting.host_blocks for setting in chosen}),
            "gigabytes_per_s": sorted({s.gigabytes_per_s for s in chosen if s.gigabytes_per_s}),
        },
        pictures=[picture],
        notes=[
            "A model until it is measured. Whole sessions are kept, the one used longest ago goes "
            "first; loads run beside what a step computes, over one link in the order of asking. "
            f"Steps of {STEP_TOKENS:,} tokens, since a load takes its share of each; the fleets of "
            "the other cases have smaller ones, so their figures differ.",
            f"A block of Qwen3.6-27B is taken as {block_megabytes():.1f} MB over all GPUs; see "
            "sim/fleet/brain/offload.py for what that is derived from.",
            *([TOO_SHORT] if is_short else findings(results)),
        ],
    )
    if is_short:
        workplace.say(TOO_SHORT)
    for setting, result in results.items():
        workplace.say(
            f"{setting.row:8} {setting.words:28} {result.rps:.3f} requests/s, hit "
            f"{-1.0 if result.hit is None else result.hit:.3f}"
        )


def settings_of(is_quick: bool, pool_blocks: int) -> list[Setting]:
    """All runs: for each fleet without host memory, with it, and with a cap instead."""
    pools = QUICK_HOST_POOLS if is_quick else HOST_POOLS
    speeds = QUICK_GIGABYTES_PER_S if is_quick else GIGABYTES_PER_S
    chosen = []
    for robots in ROBOTS[:1] if is_quick else ROBOTS:
        chosen += [Setting(robots, 0, None), Setting(robots, 0, None, CAP)]
        chosen += [
            Setting(robots, round(pools_of * pool_blocks), speed)
            for pools_of in pools
            for speed in speeds
        ]
    return chosen


def _replay(base: ReplaySettings, setting: Setting) -> ReplaySettings:
    point = replace(base.fleet[0], num_robots=setting.robots)
    made = replace(base, fleet=(point,))
    if setting.cap is not None:
        made = replace(made, admission=capped(setting.cap))
    if setting.gigabytes_per_s is None:
        return made
    choice = OffloadChoice(setting.host_blocks, setting.gigabytes_per_s, block_megabytes())
    return replace(made, offload=choice)


def rows_of(setting: Setting, result: ReplayResult, version: str, *, is_short: bool) -> list[Row]:
    """Requests a second and hits; the study has figures without host memory alone.

    Nothing of the study stands beside a run that is too short to collapse.
    """
    is_plain = setting.gigabytes_per_s is None
    notes = [] if is_plain else ["a model, not measured"]
    if is_short:
        notes.append("too short to collapse")
    variant = variant_of("study" if version == "study" else "installed", setting.words)
    path = "brain_tier/" + (
        f"static_cap/{setting.row}" if setting.cap else f"sustained_replay/{setting.row}"
    )
    values = (
        ("rps", "1/s", result.rps),
        ("hit", "share", result.hit),
        ("episodes_per_min", "1/min", result.episodes_per_min),
    )
    return [
        Row(
            setting.row,
            name,
            unit,
            study_value(f"{path}/{name}") if is_plain and not is_short else None,
            value,
            variant=variant,
            note="; ".join(notes),
        )
        for name, unit, value in values
    ]


def findings(results: Mapping[Setting, ReplayResult]) -> list[str]:
    """Which sizes and speeds do as well as a cap, in words."""
    sentences = []
    for robots in sorted({setting.robots for setting in results}):
        capped_rps = results[Setting(robots, 0, None, CAP)].rps
        plain_rps = results[Setting(robots, 0, None)].rps
        offloaded = {s: r for s, r in results.items() if s.robots == robots and s.gigabytes_per_s}
        as_good = [s for s, r in offloaded.items() if r.rps >= 0.98 * capped_rps]
        best = max(offloaded, key=lambda setting: offloaded[setting].rps)
        worst = min(offloaded, key=lambda setting: offloaded[setting].rps)
        least = min(as_good, key=lambda s: (s.host_blocks, s.gigabytes_per_s or 0), default=None)
        sentences.append(
            f"N={robots}: {plain_rps:.2f} requests/s without host memory and without a cap, "
            f"{capped_rps:.2f} with a cap of {CAP}. "
            + (
                "No size and speed tried comes within 2% of the cap; "
                if least is None
                else f"{len(as_good)} of {len(offloaded)} sizes and speeds do as well as the cap, "
                f"the smallest {least.words}; "
            )
            + f"best {offloaded[best].rps:.2f} ({best.words}), worst "
            f"{offloaded[worst].rps:.2f} ({worst.words})."
        )
    return sentences


def _draw(
    workplace: Workplace,
    results: Mapping[Setting, ReplayResult],
    pool_blocks: int,
    file: str,
    *,
    is_short: bool,
) -> None:
    plt = pyplot()
    fleets = sorted({setting.robots for setting in results})
    speeds = sorted({s.gigabytes_per_s for s in results if s.gigabytes_per_s is not None})
    figure, grid = plt.subplots(
        2,
        len(fleets),
        figsize=(5.6 * len(fleets), 7),
        layout="constrained",
        squeeze=False,
        sharex=True,
        sharey="row",
    )
    for column, robots in enumerate(fleets):
        capped_run = results[Setting(robots, 0, None, CAP)]
        plain = results[Setting(robots, 0, None)]
        for speed, marker in zip(speeds, "osD^v", strict=False):
            line = sorted(
                (s for s in results if s.robots == robots and s.gigabytes_per_s == speed),
                key=lambda setting: setting.host_blocks,
            )
            sizes = [0.0, *(s.host_blocks / pool_blocks for s in line)]
            runs = [plain, *(results[s] for s in line)]
            for axis, values in zip(
                grid[:, column], ([r.rps for r in runs], [r.hit for r in runs]), strict=True
            ):
                axis.plot(sizes, values, marker=marker, markersize=5, label=f"{speed:g} GB/s")
        top, bottom = grid[:, column]
        top.axhline(capped_run.rps, color="grey", linestyle="--", label=f"a cap of {CAP} instead")
        published = study_value(f"brain_tier/sustained_replay/N{robots}/rps")
        if isinstance(published, float | int) and not is_short:
            top.plot([0], [published], "x", color="#c0392b", markersize=9, label="the study")
        bottom.axhline(HEALTHY_HIT, color="grey", linewidth=0.8, linestyle=":")
        top.set_title(f"{robots} robots, no cap{'; too short to collapse' if is_short else ''}")
        bottom.set_xlabel(f"host memory [pools of {pool_blocks * block_megabytes() / 1e3:.0f} GB]")
        top.grid(alpha=0.3)
        bottom.grid(alpha=0.3)
    grid[0][0].set_ylabel("requests/s")
    grid[1][0].set_ylabel("prefix in the pool or in host memory")
    grid[0][0].set_ylim(bottom=0.0)
    grid[1][0].set_ylim(0.0, 1.05)
    grid[0][-1].legend(loc="lower right", title="modelled bandwidth", fontsize=9)
    path = workplace.folder / file
    figure.savefig(path, dpi=120)
    plt.close(figure)
    workplace.say(f"wrote {path}")


CASE = Case(
    "KV blocks in host memory, a model: where it removes the cliff",
    2.3,
    run,
    quick_minutes=0.2,
    uses_study_engine=True,
)
