"""Neither end stores without bound what the other does not take."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest

from robot_sdk.chunks import ChunkArrival, PolicyObservation
from robot_sdk.client import connect
from robot_sdk.messages import Message
from robot_sdk.observation import Observation
from tests.integration.end_to_end.conftest import Start
from tests.integration.end_to_end.harness import config, sleep

NUM_FRAMES = 300
FRAME_PX = 640
FRAME_BYTES = FRAME_PX * FRAME_PX * 3
MIB = 1024 * 1024


def rss_bytes(pid: int) -> int:
    fields = Path(f"/proc/{pid}/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


def frame(sequence: int) -> PolicyObservation:
    # Never the same picture twice, and never all zeros: every one takes memory of its own.
    picture = np.full((FRAME_PX, FRAME_PX, 3), sequence % 255 + 1, np.uint8)
    return PolicyObservation(
        sequence,
        sequence,
        Observation(
            tensors={"observation/state": np.zeros(1, np.float32)},
            images={"images/agentview": picture, "images/wrist": picture},
        ),
        0,
    )


@pytest.mark.faultinjection
def test_a15_frames_to_a_server_that_stands_still_take_bounded_memory(
    start_server: Start,
) -> None:
    server = start_server(config(policy_options={"image_px": FRAME_PX}, lease_ttl_s=60.0))
    keys = ("observation/state", "images/agentview", "images/wrist")
    with (
        connect(server.address) as client,
        client.episode(task="go", robot_id="robot", policies=("fake",)) as episode,
        episode.open_policy("fake", "go", keys) as stream,
    ):
        stream.send(frame(0))
        assert stream.wait(30.0)
        stream.poll()
        before = rss_bytes(os.getpid())
        server.signal(signal.SIGSTOP)
        try:
            largest = before
            for sequence in range(1, NUM_FRAMES):
                stream.send(frame(sequence))
                stream.poll()
                largest = max(largest, rss_bytes(os.getpid()))
                sleep(0.02)
        finally:
            server.signal(signal.SIGCONT)

        newest = -1
        while newest < NUM_FRAMES - 1:
            assert stream.wait(30.0)
            for answer in stream.poll():
                if isinstance(answer, ChunkArrival):
                    newest = max(newest, answer.sequence)
        episode.end("success")

    assert NUM_FRAMES * 2 * FRAME_BYTES > 600 * MIB
    assert largest - before < 100 * MIB


def test_a15_a_robot_that_reads_slowly_does_not_grow_either_end(start_server: Start) -> None:
    server = start_server(
        '[brain]\nengine = "factory"\nfactory = "tests.fakes.scripted:TickingBrain"\n'
        "options = {num = 3000}\n[policies]\n[episodes]\nlease_ttl_s = 60.0\n"
    )
    said = "x" * 1000

    def dawdle(_: str) -> None:
        if not slept:
            slept.append(True)
            sleep(5.0)

    slept: list[bool] = []
    with connect(server.address) as client:
        with client.episode(task="go", robot_id="robot") as episode:
            before = rss_bytes(server.process.pid), rss_bytes(os.getpid())
            turn = episode.decide([Message.of_text("user", said)], on_text=dawdle)
            after = rss_bytes(server.process.pid), rss_bytes(os.getpid())

    assert turn.text.count(said) == 3000
    assert after[0] - before[0] < 50 * MIB
    assert after[1] - before[1] < 50 * MIB
