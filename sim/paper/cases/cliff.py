"""Where prefixes stop surviving: the study's points, and survival over all that decides it.

The cells are those of `python -m server cliff --engine study`, at the step size that agrees with
the study; that command also tries others.
"""

from __future__ import annotations

from collections.abc import Sequence

from server.capacity.cliff import published, study, study_picture
from server.capacity.cliff.reasons import reasons
from server.capacity.cliff.variants import STUDY_STEP_TOKENS, Variant, variants
from sim.paper.case import Case, Picture, Workplace
from sim.paper.rows import Row

SESSIONS = tuple(range(22, 35))
#: Most of the study's points.
QUICK_SESSIONS = (28, 29, 31)
NUM_ROUNDS = 2


def run(workplace: Workplace) -> None:
    """Leaves cliff.json and cliff.png."""
    compared = [
        variant
        for variant in variants(workplace.study_folder)
        if variant.step_tokens == STUDY_STEP_TOKENS
        # In a minute only engines that keep every snapshot, as the study's does.
        and (variant.retention_tokens is None or not workplace.quick)
    ]
    sessions = QUICK_SESSIONS if workplace.quick else SESSIONS

    def tell(done: int, total: int) -> None:
        if done == total or done * 5 // total > (done - 1) * 5 // total:
            workplace.say(f"cliff: {done} of {total} cells")

    study.sweep_variants(
        compared, published.POOLS_BLOCKS, sessions, NUM_ROUNDS, workplace.study_folder, tell
    )
    picture = Picture(
        "cliff.png",
        "sessions that keep their whole prefix, by pool, warm-up order and snapshots kept",
        figure=7,
    )
    study_picture.draw(compared, published.POOLS_BLOCKS, workplace.folder / picture.file)
    rows = [*point_rows(compared), *most_rows(compared)]
    workplace.write_case(
        "cliff",
        rows,
        settings={
            "sessions": list(sessions),
            "pools_blocks": list(published.POOLS_BLOCKS),
            "context_tokens": published.CONTEXT_TOKENS,
            "new_tokens": published.NEW_TOKENS,
            "rounds": NUM_ROUNDS,
            "step_tokens": STUDY_STEP_TOKENS,
            "vllm": sorted({variant.version for variant in compared}),
        },
        pictures=[picture],
        notes=list(reasons(compared)),
        outcomes=[
            {"variant": short_name(variant), **outcome.to_json()}
            for variant in compared
            for outcome in variant.outcomes
        ],
    )


def short_name(variant: Variant) -> str:
    """A variant without its step, which is the same for all."""
    return variant.name.split(", steps")[0]


def point_rows(compared: Sequence[Variant]) -> list[Row]:
    """The study's points; its own version of vLLM is held to them.

    A point that this version was not run at has a row that says so.
    """
    rows = []
    for point in published.POINTS:
        held = [
            variant
            for variant in compared
            if variant.is_study_version
            and variant.at(point.pool_blocks, point.warm_up, point.num_sessions)
        ]
        if not held:
            rows.append(_not_run(point, any(variant.is_study_version for variant in compared)))
        for variant in compared:
            outcome = variant.at(point.pool_blocks, point.warm_up, point.num_sessions)
            if outcome is None:
                continue
            rows.append(
                Row(
                    point.row,
                    "survival",
                    "share",
                    point.survival,
                    outcome.survival,
                    variant=short_name(variant),
                    note=f"{outcome.kept} of {point.num_sessions} sessions kept their prefix",
                    within=0.0 if variant.is_study_version else None,
                )
            )
    return rows


def _not_run(point: published.PublishedPoint, has_engine: bool) -> Row:
    return Row(
        point.row,
        "survival",
        "share",
        point.survival,
        None,
        variant="vLLM 0.17.1, every snapshot",
        note="not among the sessions of this run" if has_engine else "vLLM 0.17.1 was not here",
        within=0.0,
    )


def most_rows(compared: Sequence[Variant]) -> list[Row]:
    """Most sessions that all keep their prefix, for each pool and order."""
    rows = []
    for pool_blocks in published.POOLS_BLOCKS:
        for warm_up in ("batch", "sequential"):
            for variant in compared:
                most = variant.most_kept(pool_blocks, warm_up)
                rows.append(
                    Row(
                        f"{pool_blocks}_{warm_up}_warm",
                        "most_sessions_kept",
                        "sessions",
                        None,
                        None if most is None else float(most),
                        # It was run: a value that it did not reach is no row that was left out.
                        (None,) if most is None else (),
                        variant=short_name(variant),
                        note="fewer than the fewest tried" if most is None else "",
                    )
                )
    return rows


CASE = Case(
    "the cliff: sessions that keep their prefix over sessions, warm-up, pool, snapshots",
    1.7,
    run,
    quick_minutes=0.3,
    uses_study_engine=True,
)
