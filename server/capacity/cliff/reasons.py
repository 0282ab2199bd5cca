"""Why one engine keeps more sessions than another, in figures of the sweep and vLLM's own rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from server.capacity.cliff import published
from server.capacity.cliff.variants import STUDY_STEP_TOKENS, Variant
from server.core.capacity import KvPool, prefill_snapshots, session_blocks, sessions_that_fit


def reasons(variants: Sequence[Variant]) -> Iterator[str]:
    """Paragraphs, without line breaks."""
    yield (
        "How a hybrid model's prefix is kept ('align' mode): a prefill ends each step on a block "
        f"boundary, and each of the {published.STATE_GROUPS} state groups stores its state there, "
        "in a block of the same pool. A session comes back only if the attention blocks and one "
        "state of each group at the same boundary are still there. A state that the prefill has "
        "moved past is freed at once. If it carries a hash it goes to the back of the free queue "
        "and holds its place until everything freed before it has been evicted."
    )
    yield from _snapshots(variants)
    yield from _order(variants)
    yield from _versions(variants)
    yield from _step(variants)


def _snapshots(variants: Sequence[Variant]) -> Iterator[str]:
    block_tokens, context = published.BLOCK_TOKENS, published.CONTEXT_TOKENS
    states = prefill_snapshots(context, block_tokens, STUDY_STEP_TOKENS)
    pool = KvPool(published.POOLS_BLOCKS[0], block_tokens, published.STATE_GROUPS)
    latest = session_blocks(pool, context)
    every = session_blocks(pool, context, states)
    yield (
        "prefix_cache_retention_interval: with 0 (the default of vLLM 0.32) only the state at the "
        f"last whole block of a prompt gets a hash, so a session of {context:,} tokens holds "
        f"{latest} blocks; with none every step's state gets one, {states} a group with steps of "
        f"{STUDY_STEP_TOKENS:,} tokens, {every} blocks. {pool.num_blocks:,} blocks hold "
        f"{sessions_that_fit(pool, latest)} and {sessions_that_fit(pool, every)} of them; with the "
        "latest only, the sessions' own growth by a visit's new tokens then costs the last ones. "
        "vLLM 0.17.1 has no such setting and keeps every state. An interval in between keeps the "
        "states of steps that happen to end on a multiple of it, besides the last one."
    )


def _order(variants: Sequence[Variant]) -> Iterator[str]:
    for variant in variants:
        if variant.retention_tokens is not None or variant.step_tokens != STUDY_STEP_TOKENS:
            continue
        outcomes = [(warm_up, variant.at(4396, warm_up, 29)) for warm_up in ("sequential", "batch")]
        pieces = {warm_up: found.prefill_pieces for warm_up, found in outcomes if found}
        if len(pieces) == 2:
            yield (
                f"Batch against sequential warm-up (vLLM {variant.version}, 29 sessions): handed "
                "in together, the step that ends one prompt starts the next one with what is left "
                "of its tokens, so prompts are cut into more pieces, "
                f"{pieces['batch']:.2f} against {pieces['sequential']:.2f} each, and each piece "
                f"leaves {published.STATE_GROUPS} more states."
            )


def _versions(variants: Sequence[Variant]) -> Iterator[str]:
    """Where both versions were swept and the newer one keeps more."""
    every = {
        variant.is_study_version: variant
        for variant in variants
        if variant.retention_tokens is None and variant.step_tokens == STUDY_STEP_TOKENS
    }
    if len(every) < 2:
        return
    newer, study = every[False], every[True]
    kept, kept_by_study = newer.most_kept(4396, "batch"), study.most_kept(4396, "batch")
    if kept is not None and kept_by_study is not None and kept > kept_by_study:
        yield (
            f"vLLM {newer.version} with every snapshot keeps {kept} sessions at 4,396 blocks after "
            f"a batch warm-up, {study.version} {kept_by_study}: since then freed blocks without a "
            "hash (the part-filled last blocks of every request) are handed out first, where "
            "0.17.1 queued them behind the cached ones and evicted cached ones for them. "
            "tests/fidelity puts the old order back into 0.32 and gets the study's result."
        )


def _step(variants: Sequence[Variant]) -> Iterator[str]:
    agreeing = [
        (variant, *variant.agreeing_points()) for variant in variants if variant.is_study_version
    ]
    if agreeing:
        found = "; ".join(
            f"{variant.step_tokens:,}: {right} of {total}" for variant, right, total in agreeing
        )
        yield (
            "Tokens in a step decide how many snapshots a prompt leaves, and the study does not "
            "state them. Published points that vLLM 0.17.1 agrees with, by step: "
            f"{found}. 16,384 is that version's default for the LLM class on such GPUs."
        )
