from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_sdk.errors import BadModelOutputError
from server.brain.openai_engine import sse
from server.brain.openai_engine.sse import SseDecoder

STREAM = (
    b": a comment\r\n\r\ndata: one\n\nevent: x\nid: 3\ndata:two\rdata: three\r\r"
    b"retry: 5\n\ndata:  four\r\n\r\ndata\n\ndata: five\r\n\ndata: not ended"
)
EVENTS = [b"one", b"two\nthree", b" four", b"", b"five"]


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_events_do_not_depend_on_where_the_bytes_are_cut(cuts):
    borders = [0, *sorted(cuts), len(STREAM)]
    decoder = SseDecoder()

    found = [e for a, b in zip(borders, borders[1:]) for e in decoder.feed(STREAM[a:b])]

    assert found == EVENTS


@pytest.mark.parametrize("line", [b"x" * 60, b"data: " + b"x" * 30 + b"\ndata: " + b"x" * 30])
def test_an_event_without_end_is_refused(monkeypatch, line):
    monkeypatch.setattr(sse, "MAX_EVENT_BYTES", 50)

    with pytest.raises(BadModelOutputError, match="too long"):
        SseDecoder().feed(line)


def test_lines_without_a_value_count_as_well(monkeypatch):
    monkeypatch.setattr(sse, "MAX_EVENT_BYTES", 50)

    with pytest.raises(BadModelOutputError, match="too long"):
        SseDecoder().feed(b"data:\n" * 60)
