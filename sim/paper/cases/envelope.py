"""Both tiers at once: how many robots a box carries, and which tier binds.

A fleet of 48 robots is replayed behind a static cap, with the server's admission and vLLM's real
scheduler at the brain tier and the server's batcher at the action tier. A cap is *carried* if
neither tier fails: full-prefix hits stay up, and at most 1% of all ticks of policies starve.
`python -m server plan` is then asked about the same box, with the mean context and the share of
the time in which policies run that the replay has measured, and both are set side by side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from server.capacity.plan import DEFAULT_STEP_TOKENS, STUDY_TURN_CYCLE_S
from server.capacity.plan_lines import (
    ActionInputs,
    BrainInputs,
    Plan,
    PlanInputs,
    brain_cap,
    make_plan,
)
from server.core.batching import STUDY_TABLE
from server.core.capacity import (
    KvPool,
    Tier,
    cliff_sessions,
    envelope,
    paced_by_step,
    starting_cap,
)
from sim.fleet.replay.result import ReplayResult
from sim.fleet.replay.runner import Job
from sim.fleet.replay.settings import (
    ActionChoice,
    AdmissionChoice,
    EngineChoice,
    ReplaySettings,
)
from sim.fleet.statistics import LOW_HIT
from sim.paper import study
from sim.paper.case import Case, Picture, Workplace
from sim.paper.plot import pyplot
from sim.paper.replay_rows import HEALTHY_HIT
from sim.paper.rows import Row

NUM_ROBOTS = 48
#: The installed vLLM as a server of robots runs it, with the step that the planner assumes.
ENGINE = EngineChoice(step_tokens=DEFAULT_STEP_TOKENS)
#: Caps by control rate and GPUs: on both sides of what the plan says of the tier that binds.
CAPS = {
    (25.0, 1): (4, 8),
    (25.0, 2): (8, 24),
    (20.0, 1): (8, 12, 24),
    (20.0, 2): (16, 24, 28),
    (10.0, 1): (24, 28),
}
CHUNKS_ONLY_CAPS = (24, 28)
#: From this cap on the brain may collapse, late; with fewer inside only the action tier is asked.
LONG_FROM_CAP = 20
LONG_S, SHORT_S, WARM_UP_S = 1800.0, 900.0, 300.0
QUICK_DURATION_S, QUICK_WARM_UP_S = 360.0, 120.0
#: The study's limit of starved ticks of a run.
STARVED_LIMIT = 0.01
#: Mean context with which the study's write-up plans, and the one the drawn curves use.
STUDY_CONTEXT_TOKENS = 95_000
CURVE_RATES_HZ = (2.0, 4.0, 5.0, 8.0, 10.0, 12.5, 15.0, 17.5, 20.0, 22.5, 25.0, 27.5, 30.0)
CURVE_GPUS = (1, 2, 4)


@dataclass(frozen=True)
class Point:
    """One run.

    Attributes:
        whole_gap: Policies make every control step of the traces; else only their chunks, as the
            study's robots, which script the rest.
    """

    hz: float
    gpus: int
    cap: int
    whole_gap: bool = True

    @property
    def row(self) -> str:
        """Its name in the rows."""
        kind = "" if self.whole_gap else "_chunks_only"
        return f"{self.hz:g}Hz_{self.gpus}gpu{kind}"

    def settings(self, quick: bool) -> ReplaySettings:
        """Of its replay."""
        whole_s = LONG_S if self.cap >= LONG_FROM_CAP else SHORT_S
        return ReplaySettings.sustained(
            NUM_ROBOTS,
            engine=ENGINE,
            admission=AdmissionChoice("static-cap", {"cap": self.cap}),
            action=ActionChoice(self.gpus, self.hz, whole_gap=self.whole_gap),
            duration_s=QUICK_DURATION_S if quick else whole_s,
            warm_up_s=QUICK_WARM_UP_S if quick else WARM_UP_S,
        )


@dataclass(frozen=True)
class Outcome:
    """What became of a point, and what the planner says of the same box.

    Attributes:
        hit, lowest_hit: After the warm-up; over all, and of its worst window.
        starved, worst_starved: Part of all robots' ticks, and of the robot that starved most; that
            one may have had few.
        policy_share: Part of the time of a robot inside in which its policy runs, starved ticks
            left out: they are what a tier does to its robots, not what these ask of it.
        planned_robots: By `python -m server plan`, with the two measured figures.
        planned_brain, planned_action: Robots that each tier carries by the plan.
    """

    point: Point
    rps: float
    hit: float | None
    lowest_hit: float | None
    starved: float
    worst_starved: float
    policy_share: float
    mean_context_tokens: float
    planned_robots: int
    planned_brain: int
    planned_action: int

    @property
    def failed(self) -> tuple[str, ...]:
        """Tiers that failed in the replay."""
        hits = (self.hit, HEALTHY_HIT), (self.lowest_hit, LOW_HIT)
        tiers = []
        if any(hit is not None and hit < limit for hit, limit in hits):
            tiers.append(Tier.BRAIN.value)
        if self.starved > STARVED_LIMIT:
            tiers.append(Tier.ACTION.value)
        return tuple(tiers)

    @property
    def planned_to_fail(self) -> tuple[str, ...]:
        """Tiers that the cap overloads by the plan."""
        tiers = []
        if self.point.cap > self.planned_brain:
            tiers.append(Tier.BRAIN.value)
        if self.point.cap > self.planned_action:
            tiers.append(Tier.ACTION.value)
        return tuple(tiers)

    @property
    def agreement(self) -> str:
        """The plan beside the replay, in one of three ways."""
        if set(self.failed) - set(self.planned_to_fail):
            return "plan promises too much"
        return "agree" if self.failed == self.planned_to_fail else "plan is cautious"


def run(workplace: Workplace) -> None:
    """Leaves envelope.json and two pictures."""
    seeds = workplace.seeds(1, 1)
    points = grid(workplace.quick)
    jobs = [Job(point.settings(workplace.quick), seed) for point in points for seed in seeds]
    results = workplace.replays(jobs, "both tiers")
    by_point = {
        point: results[place * len(seeds) : (place + 1) * len(seeds)]
        for place, point in enumerate(points)
    }
    outcomes = [outcome(point, found) for point, found in by_point.items()]
    pictures = [
        Picture("envelope.png", "caps that both tiers carry in the replay, and the plan's line"),
        Picture("envelope-plan.png", "robots that a box carries by the plan, over control rate"),
    ]
    _draw_replay(workplace, outcomes, pictures[0].file)
    _draw_plan(workplace, outcomes, pictures[1].file)
    workplace.write_case(
        "envelope",
        [*replay_rows(outcomes), *plan_rows(), *action_rows()],
        settings={
            "robots": NUM_ROBOTS,
            "seeds": list(seeds),
            "engine": asdict(ENGINE),
            "engine_version": results[0].engine_version,
            "cost": ReplaySettings.cost,
            "duration_s": {
                str(job.settings.admission.settings["cap"]): job.settings.duration_s for job in jobs
            },
            "warm_up_s": jobs[0].settings.warm_up_s,
            "healthy_hit": HEALTHY_HIT,
            "lowest_window_hit": LOW_HIT,
            "starved_limit": STARVED_LIMIT,
            "latency_table": STUDY_TABLE.to_json(),
        },
        pictures=pictures,
        notes=notes(outcomes),
        outcomes=[
            {
                **asdict(found),
                "failed": found.failed,
                "planned_to_fail": found.planned_to_fail,
                "agreement": found.agreement,
            }
            for found in outcomes
        ],
    )
    for found in outcomes:
        workplace.say(_line(found))


def grid(quick: bool) -> list[Point]:
    """All runs."""
    if quick:
        return [Point(hz, 1, cap) for hz in (25.0, 20.0) for cap in (8, 16)]
    points = [Point(hz, gpus, cap) for (hz, gpus), caps in CAPS.items() for cap in caps]
    return [*points, *(Point(20.0, 1, cap, whole_gap=False) for cap in CHUNKS_ONLY_CAPS)]


def outcome(point: Point, results: Sequence[ReplayResult]) -> Outcome:
    """The worst seed counts; what the plan is given is the mean over the seeds."""
    context = sum(mean_context_tokens(result) for result in results) / len(results)
    share = sum(policy_share(result) for result in results) / len(results)
    plan = plan_of(point.hz, point.gpus, context, share)
    brain, action = planned_tiers(plan)
    return Outcome(
        point=point,
        rps=sum(result.rps for result in results) / len(results),
        hit=_least(result.hit_after_warm_up for result in results),
        lowest_hit=_least(result.lowest_window_hit_after_warm_up for result in results),
        starved=max(result.starved_fraction or 0.0 for result in results),
        worst_starved=max(result.starved_fraction_worst or 0.0 for result in results),
        policy_share=share,
        mean_context_tokens=context,
        planned_robots=min(brain, action),
        planned_brain=brain,
        planned_action=action,
    )


def policy_share(result: ReplayResult) -> float:
    """Part of the time in which a robot would run its policy if it never starved."""
    share, starved = result.policy_share or 0.0, result.starved_fraction or 0.0
    # Without its starved ticks an hour is shorter, and so is the policy's part of it.
    without = share * (1.0 - starved) / (1.0 - share * starved) if share * starved < 1.0 else 1.0
    return min(1.0, max(without, 1e-6))


def mean_context_tokens(result: ReplayResult, engine: EngineChoice | None = None) -> float:
    """Of the conversations inside together, over the windows after the first two; 0 without any."""
    engine = engine or ENGINE
    pool_tokens = engine.pool_blocks * engine.block_tokens
    shares = [
        window.working_set_share / window.num_active
        for window in result.windows[2:]
        if window.num_active
    ]
    return pool_tokens * sum(shares) / len(shares) if shares else 0.0


def plan_of(hz: float, gpus: int, context_tokens: float, policy_share: float) -> Plan:
    """What `python -m server plan` makes of the box."""
    pool = KvPool(ENGINE.pool_blocks, ENGINE.block_tokens, ENGINE.num_state_groups)
    brain = BrainInputs(
        pool=pool,
        mean_context_tokens=context_tokens,
        step_tokens=ENGINE.step_tokens,
        turn_cycle_s=STUDY_TURN_CYCLE_S,
        pool_source="the study",
        context_source="measured by the replay",
        turn_source="the study",
    )
    action = ActionInputs(
        control_hz=hz,
        table=STUDY_TABLE,
        table_source="the study",
        executed_steps=ActionChoice.executed_steps,
        horizon=ActionChoice.horizon,
        num_gpus=gpus,
        policy_share=policy_share,
    )
    return make_plan(PlanInputs(brain, action))


def planned_tiers(plan: Plan) -> tuple[int, int]:
    """Robots that the brain tier and the action tier carry by a plan of both."""
    brain = plan.inputs.brain
    assert brain is not None
    assert plan.both is not None
    return brain_cap(brain.pool, brain.mean_context_tokens), plan.both.action_robots


def replay_rows(outcomes: Sequence[Outcome]) -> list[Row]:
    """Largest cap that was carried, beside the plan; the study has neither."""
    rows = []
    for name in dict.fromkeys(found.point.row for found in outcomes):
        mine = [found for found in outcomes if found.point.row == name]
        carried = [found.point.cap for found in mine if not found.failed]
        first = next((found for found in mine if found.failed), None)
        beyond = "" if first is None else f"; at {first.point.cap} fails: {_tiers(first.failed)}"
        best = max(carried, default=0)
        judge = mine[0] if not carried else next(f for f in mine if f.point.cap == best)
        rows += [
            Row(
                name,
                "robots_carried",
                "robots",
                None,
                float(best),
                note=f"of caps {', '.join(str(found.point.cap) for found in mine)}{beyond}",
            ),
            Row(
                name,
                "robots_planned",
                "robots",
                None,
                float(judge.planned_robots),
                kind="computed",
                note=f"brain {judge.planned_brain}, action {judge.planned_action}, with a context "
                f"of {judge.mean_context_tokens:,.0f} tokens and policies running "
                f"{judge.policy_share:.1%} of the time, as the replay measured",
            ),
        ]
    return rows


def plan_rows() -> list[Row]:
    """The plan's brain rules on the study's box beside what the study says."""
    pools = study.value("brain_tier/pool_blocks")
    cliff = cliff_sessions(KvPool(pools[1], 784), STUDY_CONTEXT_TOKENS)
    return [
        Row(
            "pool4396",
            "cliff_sessions",
            "sessions",
            (29.0, 31.0),
            cliff,
            kind="computed",
            note="0.85 x pool / 95k tokens; the study lost all prefixes at 29 to 31 sessions",
            within=0.0,
        ),
        Row(
            "pool4270",
            "starting_cap",
            "robots",
            (20.0, 20.0),
            float(starting_cap(cliff_sessions(KvPool(pools[0], 784), STUDY_CONTEXT_TOKENS))),
            kind="computed",
            note="two thirds of the cliff; the study's fleets were healthy at 20",
            within=0.0,
        ),
    ]


def action_rows() -> list[Row]:
    """Robots that the action tier carries, all policies running all the time, and what binds."""
    cap = starting_cap(cliff_sessions(KvPool(4270, 784), STUDY_CONTEXT_TOKENS))
    rows = []
    for hz in (20.0, 10.0, 5.0):
        per_replica = paced_by_step(
            STUDY_TABLE, hz, ActionChoice.executed_steps, ActionChoice.horizon
        )
        for gpus in CURVE_GPUS:
            both = envelope(cap, per_replica, gpus)
            rows.append(
                Row(
                    f"{hz:g}Hz_{gpus}gpu_all_at_once",
                    "robots_planned",
                    "robots",
                    None,
                    float(both.robots),
                    kind="computed",
                    note=f"brain {cap}, action {'≥ ' if both.is_at_least else ''}"
                    f"{both.action_robots}: {both.binds.value} binds",
                )
            )
    return rows


def notes(outcomes: Sequence[Outcome]) -> list[str]:
    """What the grid shows, in sentences."""
    counts: dict[str, int] = {}
    for found in outcomes:
        counts[found.agreement] = counts.get(found.agreement, 0) + 1
    counted = ", ".join(f"{count} x {what}" for what, count in sorted(counts.items()))
    return [
        f"`python -m server plan` beside {len(outcomes)} replays of both tiers: {counted}. It "
        "agrees where the tiers that a cap overloads by the plan are those that failed; it is "
        "cautious where a tier held that the plan would not have trusted; it promises too much "
        "where one failed that it would have.",
        "A robot of these traces runs a policy in a small part of its time: the brain thinks in "
        "the rest. What the action tier must carry at once is therefore far less than the robots "
        "inside, and plan's --policy-share says how much. With the default of 1 it answers for "
        "robots that may all run their policies at once.",
        "The study measured both tiers apart and left their crossing open; there is nothing of "
        "its own to set beside these robots.",
    ]


def _least(values: Any) -> float | None:
    known = [value for value in values if value is not None]
    return min(known, default=None)


def _tiers(tiers: Sequence[str]) -> str:
    return " and ".join(tiers) or "nothing"


def _line(found: Outcome) -> str:
    point = found.point
    hit = "-" if found.hit is None else f"{found.hit:.3f}"
    return (
        f"{point.row:22} cap {point.cap:2}: hit {hit}, starved {found.starved:6.2%} (worst robot "
        f"{found.worst_starved:6.2%}), {found.rps:.2f} turns/s, policy {found.policy_share:5.1%}; "
        f"fails: {_tiers(found.failed)}; plan {found.planned_robots} (brain "
        f"{found.planned_brain}, action {found.planned_action}): {found.agreement}"
    )


_COLOURS: Mapping[tuple[str, ...], str] = {
    (): "#cfe8cf",
    ("brain",): "#f2b8a2",
    ("action",): "#f5dd90",
    ("brain", "action"): "#d8a3c8",
}
_LABELS: Mapping[tuple[str, ...], str] = {
    (): "both tiers hold",
    ("brain",): "brain fails (prefixes lost)",
    ("action",): "action fails (ticks starve)",
    ("brain", "action"): "both fail",
}


def _draw_replay(workplace: Workplace, outcomes: Sequence[Outcome], file: str) -> None:
    plt = pyplot()
    columns = sorted({(f.point.whole_gap, f.point.gpus) for f in outcomes}, reverse=True)
    columns.sort(key=lambda column: (not column[0], column[1]))
    figure, panels = plt.subplots(
        1, len(columns), figsize=(4.6 * len(columns), 4.8), layout="constrained", squeeze=False
    )
    for axes, (whole_gap, gpus) in zip(panels[0], columns, strict=True):
        mine = [f for f in outcomes if (f.point.whole_gap, f.point.gpus) == (whole_gap, gpus)]
        rates = sorted({found.point.hz for found in mine})
        caps = sorted({found.point.cap for found in mine})
        for found in mine:
            x, y = rates.index(found.point.hz), caps.index(found.point.cap)
            axes.add_patch(
                plt.Rectangle(
                    (x - 0.5, y - 0.5),
                    1,
                    1,
                    facecolor=_COLOURS[found.failed],
                    edgecolor="white",
                    linewidth=2,
                    zorder=0,
                )
            )
            hit = "-" if found.hit is None else f"{100 * found.hit:.1f}%"
            axes.text(
                x,
                y,
                f"hit {hit}\nstarved {100 * found.starved:.1f}%\n"
                f"plan: {found.planned_robots}"
                + ("" if not found.planned_to_fail else f", {_tiers(found.planned_to_fail)} over"),
                ha="center",
                va="center",
                fontsize=7.5,
            )
        axes.set(
            xlim=(-0.5, len(rates) - 0.5),
            ylim=(-0.5, len(caps) - 0.5),
            xlabel="control rate [Hz]",
            ylabel="cap: robots inside",
            title=f"{gpus} policy GPU{'s' if gpus > 1 else ''}, "
            + ("all motion by policies" if whole_gap else "chunks of the traces only"),
        )
        axes.set_xticks(range(len(rates)), [f"{rate:g}" for rate in rates])
        axes.set_yticks(range(len(caps)), [str(cap) for cap in caps])
        axes.tick_params(length=0)
    handles = [
        plt.Rectangle((0, 0), 1, 1, color=_COLOURS[key], label=_LABELS[key]) for key in _LABELS
    ]
    figure.legend(
        handles=handles, loc="outside lower center", ncols=min(4, 2 * len(columns)), fontsize=8
    )
    figure.suptitle(f"{NUM_ROBOTS} robots behind a static cap, both tiers replayed; white: not run")
    figure.savefig(workplace.folder / file, dpi=120)
    plt.close(figure)
    workplace.say(f"wrote {workplace.folder / file}")


def _draw_plan(workplace: Workplace, outcomes: Sequence[Outcome], file: str) -> None:
    plt = pyplot()
    shares = [("all policies at once", 1.0)]
    for whole_gap, words in ((True, "all motion by policies"), (False, "chunks of the traces")):
        mine = [found for found in outcomes if found.point.whole_gap == whole_gap]
        # Starving lengthens more than the ticks that starve; robots that don't are told from.
        mine = [f for f in mine if Tier.ACTION.value not in f.failed] or mine
        if mine:
            shares.append((words, sum(found.policy_share for found in mine) / len(mine)))
    contexts = [found.mean_context_tokens for found in outcomes if not found.failed]
    context = sum(contexts) / len(contexts) if contexts else float(STUDY_CONTEXT_TOKENS)
    figure, panels = plt.subplots(
        1, len(shares), figsize=(4.6 * len(shares), 4.4), sharey=True, layout="constrained"
    )
    for axes, (words, share) in zip(list(panels), shares, strict=True):
        for place, gpus in enumerate(CURVE_GPUS):
            tiers = [planned_tiers(plan_of(hz, gpus, context, share)) for hz in CURVE_RATES_HZ]
            axes.plot(
                CURVE_RATES_HZ,
                [min(brain, action) for brain, action in tiers],
                marker="o",
                markersize=4 + 2 * (len(CURVE_GPUS) - place),
                color=f"C{place}",
                label=f"{gpus} policy GPU{'s' if gpus > 1 else ''}",
            )
        brain = planned_tiers(plan_of(20.0, 1, context, share))[0]
        axes.axhline(brain, color="0.4", linestyle="--", linewidth=0.9)
        axes.annotate(
            f"brain: {brain}", (30, brain * 1.01), fontsize=8, va="bottom", ha="right", color="0.3"
        )
        axes.set(
            xlabel="control rate [Hz]",
            title=f"{words}: {share:.1%} of the time",
            ylim=(0, brain * 1.3),
        )
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("robots that the box carries, by the plan")
    panels[0].legend(fontsize=8, loc="lower left")
    figure.suptitle(
        f"min(brain, action): on the dashed line the brain binds, under it the action tier "
        f"(pool of 4,270 blocks, mean context {context:,.0f} tokens)",
        fontsize=10,
    )
    figure.savefig(workplace.folder / file, dpi=120)
    plt.close(figure)
    workplace.say(f"wrote {workplace.folder / file}")


CASE = Case(
    "robots a box carries with both tiers at once, and what `server plan` says of it",
    2.5,
    run,
    quick_minutes=0.2,
)
