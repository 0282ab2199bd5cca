"""Whatever happens in whatever order: every observation is answered exactly once."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.core.batching import (
    BATCHER_NAMES,
    STUDY_TABLE,
    Accepted,
    Batcher,
    StreamRate,
    Waiting,
    make_batcher,
)

_steps = st.lists(
    st.one_of(
        st.tuples(st.just("open"), st.integers(0, 5), st.sampled_from([5.0, 10.0, 20.0])),
        st.tuples(st.just("add"), st.integers(0, 5), st.integers(0, 9)),
        st.tuples(st.just("take"), st.integers(0, 1), st.just(0)),
        st.tuples(st.just("finish"), st.integers(0, 1), st.just(0)),
        st.tuples(st.just("lose"), st.integers(0, 1), st.just(0)),
        st.tuples(st.just("close"), st.integers(0, 5), st.just(0)),
        st.tuples(st.just("wait"), st.integers(1, 300), st.just(0)),
    ),
    max_size=60,
)


@pytest.mark.parametrize("has_table", [True, False])
@pytest.mark.parametrize("name", BATCHER_NAMES)
@settings(max_examples=40, deadline=None)
@given(steps=_steps, max_batch=st.integers(1, 4))
def test_every_observation_is_answered_exactly_once(
    name: str, has_table: bool, steps: list[tuple[str, int, float]], max_batch: int
) -> None:
    table = STUDY_TABLE if has_table else None
    batcher: Batcher[None] = make_batcher(name, max_batch, num_workers=2, table=table)
    now_s, added, answered = 0.0, [], []
    busy: dict[int, int] = {}
    is_open: set[int] = set()

    def take(worker: int) -> None:
        batch = batcher.take(now_s, worker)
        assert len(batch.items) <= max_batch
        assert batch.wake_at_s is None or (not batch.items and batch.wake_at_s > now_s)
        answered.extend(item.sequence for item in (*batch.items, *batch.expired))
        if batch.items:
            busy[worker] = len(batch.items)

    for sequence, (kind, who, what) in enumerate(steps):
        if kind == "open" and who not in is_open:
            if isinstance(batcher.open_stream(who, StreamRate(what, 5, 10), now_s), Accepted):
                is_open.add(who)
        elif kind == "add":
            added.append(sequence)
            item = Waiting(who, sequence, now_s, now_s + 0.5, None, sequence, int(what))
            replaced = batcher.add(item)
            answered += [] if replaced is None else [replaced.sequence]
        elif kind == "take" and who not in busy:
            take(who)
        elif kind == "finish" and who in busy:
            batcher.on_finished(who, busy.pop(who), 0.2, now_s)
        elif kind == "lose":
            busy.pop(who, None)
            batcher.on_lost(who, now_s)
        elif kind == "close":
            is_open.discard(who)
            gone = batcher.close_stream(who)
            answered += [] if gone is None else [gone.sequence]
        elif kind == "wait":
            now_s += who / 1000
    assert len(batcher) == len(added) - len(answered)
    now_s += 1.0
    answered.extend(item.sequence for item in batcher.expire(now_s))
    assert sorted(answered) == added
    assert len(batcher) == 0
