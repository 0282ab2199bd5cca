from __future__ import annotations

import socket

from hypothesis import given
from hypothesis import strategies as st

from server.worker.framing import Frame, FrameDecoder, FrameSocket, encode

_headers = st.dictionaries(st.text(), st.one_of(st.integers(), st.text(), st.none()), max_size=4)


@given(
    st.lists(st.tuples(_headers, st.binary(max_size=50)), max_size=6),
    st.lists(st.integers(1, 20), min_size=1, max_size=200),
)
def test_frames_survive_any_cutting_of_the_stream(
    frames: list[tuple[dict[str, object], bytes]], cuts: list[int]
) -> None:
    data = b"".join(encode(header, body) for header, body in frames)
    decoder = FrameDecoder()
    received: list[Frame] = []
    position = 0
    for cut in cuts:
        received += decoder.feed(data[position : position + cut])
        position += cut
    received += decoder.feed(data[position:])

    assert [(f.header, f.body) for f in received] == frames


def test_a_worker_whose_front_end_has_gone_hears_of_it_when_it_listens() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        ours.sendall(b"unread")
        ours.close()
        worker = FrameSocket(theirs)

        worker.send({"op": "ready"})
        worker.send({"op": "ready"})

        assert worker.receive() is None


def test_a_front_end_that_left_frames_unread_has_gone_all_the_same() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        worker = FrameSocket(theirs)
        worker.send({"op": "ready"})
        ours.close()

        assert worker.receive() is None
