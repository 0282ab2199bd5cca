from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from server.core.batching import FifoBatcher, Waiting


def waiting(stream: int, sequence: int, expires_at_s: float | None = None) -> Waiting[None]:
    return Waiting(stream, sequence, 0.0, expires_at_s, None)


def taken(batcher: FifoBatcher[None], now_s: float = 0.0) -> list[tuple[int, int]]:
    return [(item.stream, item.sequence) for item in batcher.take(now_s).items]


def test_streams_are_served_in_order_of_arrival_up_to_the_batch_size() -> None:
    batcher: FifoBatcher[None] = FifoBatcher(max_batch=2)
    for stream in (3, 1, 2):
        batcher.add(waiting(stream, 1))

    assert taken(batcher) == [(3, 1), (1, 1)]
    assert taken(batcher) == [(2, 1)]


def test_a15_a_newer_observation_replaces_the_waiting_one_of_its_stream() -> None:
    batcher: FifoBatcher[None] = FifoBatcher(max_batch=8)
    batcher.add(waiting(1, 1))

    replaced = batcher.add(waiting(1, 2))

    assert replaced is not None
    assert replaced.sequence == 1
    assert taken(batcher) == [(1, 2)]


def test_a_stream_that_asks_often_keeps_its_place_in_the_line() -> None:
    batcher: FifoBatcher[None] = FifoBatcher(max_batch=1)
    batcher.add(waiting(1, 1))
    batcher.add(waiting(2, 1))

    batcher.add(waiting(1, 2))

    assert taken(batcher) == [(1, 2)]


def test_an_observation_whose_time_has_passed_is_given_up() -> None:
    batcher: FifoBatcher[None] = FifoBatcher(max_batch=1)
    batcher.add(waiting(1, 1, expires_at_s=5.0))
    batcher.add(waiting(2, 1, expires_at_s=5.1))

    batch = batcher.take(5.0)

    assert [item.stream for item in batch.expired] == [1]
    assert [item.stream for item in batch.items] == [2]


def test_an_observation_is_given_up_on_time_although_no_worker_is_free() -> None:
    batcher: FifoBatcher[None] = FifoBatcher(max_batch=1)
    batcher.add(waiting(1, 1, expires_at_s=5.0))
    batcher.add(waiting(2, 1, expires_at_s=5.1))
    batcher.add(waiting(3, 1))

    assert [item.stream for item in batcher.expire(5.0)] == [1]
    assert batcher.expire(5.0) == ()
    assert taken(batcher, 5.0) == [(2, 1)]
    assert taken(batcher, 5.0) == [(3, 1)]


def test_a_stream_that_goes_takes_its_observation_with_it() -> None:
    batcher: FifoBatcher[None] = FifoBatcher(max_batch=1)
    batcher.add(waiting(1, 1))

    assert batcher.close_stream(1) is not None
    assert batcher.close_stream(1) is None
    assert len(batcher) == 0


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.integers(0, 5)),
            st.tuples(st.just("take"), st.just(0)),
            st.tuples(st.just("remove"), st.integers(0, 5)),
        ),
        max_size=60,
    ),
    st.integers(1, 4),
)
def test_every_observation_is_answered_exactly_once(
    steps: list[tuple[str, int]], max_batch: int
) -> None:
    batcher: FifoBatcher[None] = FifoBatcher(max_batch)
    added: list[int] = []
    answered: list[int] = []
    for sequence, (kind, stream) in enumerate(steps):
        if kind == "add":
            added.append(sequence)
            replaced = batcher.add(waiting(stream, sequence, expires_at_s=sequence + 10.0))
            answered += [replaced.sequence] if replaced else []
        elif kind == "take":
            batch = batcher.take(float(sequence))
            assert len(batch.items) <= max_batch
            answered += [item.sequence for item in (*batch.items, *batch.expired)]
        else:
            removed = batcher.close_stream(stream)
            answered += [removed.sequence] if removed else []
    while len(batcher):
        batch = batcher.take(0.0)
        answered += [item.sequence for item in (*batch.items, *batch.expired)]

    assert sorted(answered) == added
