"""Every observation gets exactly one answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_sdk.chunk_ledger import ChunkLedger
from robot_sdk.errors import InvalidArgumentError


def test_an_answer_settles_once():
    ledger = ChunkLedger()
    ledger.add(0, 40, None, now_s=1.0)
    assert ledger.settle(0).control_step == 40
    assert ledger.settle(0) is None


def test_a_deadline_passes_exactly_when_it_says():
    ledger = ChunkLedger()
    ledger.add(0, 0, 0.5, now_s=1.0)
    ledger.add(1, 1, None, now_s=1.0)
    assert ledger.next_expiry_s() == 1.5
    assert ledger.expire(1.499) == []
    assert [item.sequence for item in ledger.expire(1.5)] == [0]
    assert ledger.next_expiry_s() is None


def test_a_sequence_must_count_up():
    ledger = ChunkLedger()
    ledger.add(2, 0, None, now_s=0.0)
    ledger.settle(2)
    with pytest.raises(InvalidArgumentError, match="at least 3"):
        ledger.add(2, 0, None, now_s=0.0)


events = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from([None, 0.0, 0.5, 2.0])),
        st.tuples(st.just("settle"), st.integers(0, 20)),
        st.tuples(st.just("expire"), st.floats(0, 1)),
        st.tuples(st.just("break"), st.booleans()),
    )
)


@given(events)
def test_conservation_whatever_happens(happenings):
    ledger = ChunkLedger()
    now_s, next_sequence, settled = 0.0, 0, []
    for kind, value in happenings:
        if kind == "add":
            ledger.add(next_sequence, 0, value, now_s)
            next_sequence += 1
        elif kind == "settle":
            item = ledger.settle(value)
            settled += [] if item is None else [item.sequence]
        elif kind == "expire":
            now_s += value
            settled += [item.sequence for item in ledger.expire(now_s)]
        else:
            keep = next_sequence - 1 if value else None
            settled += [item.sequence for item in ledger.settle_all(keep)]
    settled += [item.sequence for item in ledger.settle_all()]
    assert sorted(settled) == list(range(next_sequence))
    assert len(ledger) == 0
