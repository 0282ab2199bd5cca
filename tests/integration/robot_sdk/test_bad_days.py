"""The client over real gRPC when server, process or network misbehave."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from robot_sdk.channel import KEEPALIVE_INTERVAL_S
from robot_sdk.chunks import ChunkArrival, PolicyObservation
from robot_sdk.client import connect
from robot_sdk.errors import ForkedProcessError, RobotSdkError
from robot_sdk.messages import Message
from robot_sdk.observation import Observation
from robot_sdk.testing import FakeServer
from server.config import ServerSection
from tests.contract.conftest import POLICY, step_policy
from tests.contract.grpc_server import GrpcFakeServer
from tests.contract.waiting import eventually

STATE = "observation/state"
HELLO = [Message.of_text("user", "go")]


@pytest.fixture
def fake():
    return FakeServer(
        specs=(POLICY,), policy=step_policy, lease_ttl_s=10.0, heartbeat_interval_s=0.1
    )


@pytest.fixture
def server(fake):
    server = GrpcFakeServer(fake)
    yield server
    server.stop()


@pytest.fixture
def client(server):
    with connect(server.target) as client:
        yield client


@pytest.fixture
def episode(client):
    with client.episode(task="reach", robot_id="robot-0", policies=("reach",)) as episode:
        yield episode


def observation(sequence):
    state = np.zeros(2, np.float32)
    return PolicyObservation(sequence, sequence, Observation(tensors={STATE: state}), 0)


def chunk_for(stream, sequence):
    stream.send(observation(sequence))
    assert stream.wait(5.0)
    return stream.poll()[-1]


def test_a5_a_robot_is_back_within_five_seconds_of_the_server(fake):
    """Short form: 8 s away, when every backoff has reached its longest pause."""
    first = GrpcFakeServer(fake)
    with connect(first.target) as client:
        with client.episode(task="reach", robot_id="robot-0", policies=("reach",)) as episode:
            stream = episode.open_policy("reach", "reach it", [STATE])
            first.stop()
            time.sleep(8.0)
            second = GrpcFakeServer(fake, port=first.port)
            opened_s = time.monotonic()
            try:
                assert episode.decide(HELLO).text == "done"
                sequence = 0
                while not isinstance(chunk_for(stream, sequence), ChunkArrival):
                    sequence += 1
                assert time.monotonic() - opened_s < 5.0
                assert episode.lost is None
                eventually(lambda: fake.episodes.all[0].epoch >= 2)
            finally:
                episode.end("success")
                second.stop()


def test_a9_a_client_serves_several_threads_and_several_asyncio_runs(client):
    def whole_episode(number):
        with client.episode(task="reach", robot_id=f"robot-{number}") as episode:
            return episode.decide(HELLO).text

    async def through_a_thread():
        return await asyncio.to_thread(whole_episode, 0)

    assert asyncio.run(through_a_thread()) == "done"
    assert asyncio.run(through_a_thread()) == "done"
    texts = []
    threads = [
        threading.Thread(target=lambda n=n: texts.append(whole_episode(n))) for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10.0)
    assert texts == ["done"] * 4


def test_a9_a_client_may_be_connected_while_a_module_is_imported(server, tmp_path):
    (tmp_path / "robot_program.py").write_text(
        "import threading\n"
        "from robot_sdk.client import connect\n"
        f"client = connect('{server.target}')\n"
        "assert client.server_info.server == 'fake'\n"
    )
    program = "import robot_program as p; p.client.close(); print('closed')"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "closed"), done.stderr


def test_a_program_that_forgets_to_close_anything_still_exits(server):
    program = (
        "from robot_sdk.client import connect\n"
        f"client = connect('{server.target}')\n"
        "episode = client.episode(task='reach', robot_id='robot-0', policies=('reach',))\n"
        "episode.__enter__()\n"
        f"stream = episode.open_policy('reach', 'go', ['{STATE}'])\n"
        "print('left')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "left"), done.stderr


def _child_of_a_fork(episode, client, results):
    refused = []
    for call in (
        lambda: episode.decide(HELLO),
        lambda: client.episode(task="reach", robot_id="child").__enter__(),
    ):
        try:
            call()
            refused.append("worked")
        except ForkedProcessError:
            refused.append("refused")
        except RobotSdkError as error:
            refused.append(type(error).__name__)
    episode.end("failure", "the child must not end the parent's episode")
    client.close()
    results.put(refused)


@pytest.mark.faultinjection
def test_a10_a_forked_child_gets_one_clear_error_and_the_parent_goes_on(fake, episode, client):
    stream = episode.open_policy("reach", "reach it", [STATE])
    context = multiprocessing.get_context("fork")
    for sequence in range(5):
        results = context.Queue()
        child = context.Process(target=_child_of_a_fork, args=(episode, client, results))
        child.start()
        assert results.get(timeout=20.0) == ["refused", "refused"]
        child.join(20.0)
        assert child.exitcode == 0
        assert isinstance(chunk_for(stream, sequence), ChunkArrival)
    assert fake.episodes.all[0].over is None
    assert fake.episodes.all[0].epoch == 1


@pytest.mark.faultinjection
@pytest.mark.parametrize("num_rounds", [10, pytest.param(100, marks=pytest.mark.long)])
def test_a10_a_tool_may_run_programs_and_fork_while_chunks_flow(fake, episode, num_rounds):
    """One program and one fork a round."""
    stream = episode.open_policy("reach", "reach it", [STATE])
    stopped = threading.Event()
    chunks = []

    def drive():
        while not stopped.is_set():
            chunks.append(chunk_for(stream, len(chunks)))

    driver = threading.Thread(target=drive)
    driver.start()
    context = multiprocessing.get_context("fork")
    try:
        for _ in range(num_rounds):
            subprocess.run([sys.executable, "-S", "-c", "pass"], timeout=20, check=True)
            child = context.Process(target=sum, args=([1, 2],))
            child.start()
            child.join(20.0)
            assert child.exitcode == 0
    finally:
        stopped.set()
        driver.join(10.0)
    assert not driver.is_alive()
    assert chunks
    assert all(isinstance(item, ChunkArrival) for item in chunks)
    assert fake.episodes.all[0].epoch == 1


def test_c2_a_tool_that_holds_the_interpreter_for_two_seconds_keeps_the_lease(fake, episode):
    end_s = time.monotonic() + 2.0
    big = 7**400_000
    while time.monotonic() < end_s:
        big * big
    record = fake.episodes.all[0]
    num_before = len(record.heartbeats)
    eventually(lambda: len(record.heartbeats) > num_before)
    assert episode.lost is None
    assert episode.decide(HELLO).text == "done"


def test_a2_the_client_pings_no_more_often_than_the_server_permits():
    assert ServerSection().min_keepalive_interval_s <= KEEPALIVE_INTERVAL_S


def test_b6_a_stall_answers_no_observation_twice(fake, episode):
    fake.chunk_delay_s = 0.5
    stream = episode.open_policy("reach", "reach it", [STATE])
    for sequence in range(3):
        stream.send(
            PolicyObservation(
                sequence,
                sequence,
                Observation(tensors={STATE: np.zeros(2, np.float32)}),
                0,
                deadline_s=0.05,
            )
        )
    found = []
    end_s = time.monotonic() + 2.0
    while time.monotonic() < end_s:
        if stream.wait(0.1):
            found += stream.poll()
    assert sorted(item.sequence for item in found) == [0, 1, 2]


def test_an_unreachable_address_does_not_hang_the_exit():
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        with pytest.raises(RobotSdkError):
            connect(f"127.0.0.1:{deaf.getsockname()[1]}", connect_timeout_s=0.2)


def test_thirty_episodes_leave_no_thread_behind(client):
    def run_one():
        with client.episode(task="reach", robot_id="robot-0", policies=("reach",)) as episode:
            with episode.open_policy("reach", "reach it", [STATE]) as stream:
                chunk_for(stream, 0)

    run_one()
    eventually(lambda: not [t for t in threading.enumerate() if t.name.startswith("robot-sdk")])
    before = threading.active_count()
    for _ in range(30):
        run_one()
    eventually(lambda: not [t for t in threading.enumerate() if t.name.startswith("robot-sdk")])
    eventually(lambda: threading.active_count() <= before + 8)


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("away_s", [60.0, 150.0])
def test_a5_a_robot_that_polls_through_a_long_outage_is_back_within_five_seconds(fake, away_s):
    first = GrpcFakeServer(fake)
    client = connect(first.target)

    def try_an_episode():
        try:
            with client.episode(task="reach", robot_id="robot-0") as episode:
                return episode.decide(HELLO).text
        except RobotSdkError:
            return None

    first.stop()
    end_s = time.monotonic() + away_s
    while time.monotonic() < end_s:
        assert try_an_episode() is None
    second = GrpcFakeServer(fake, port=first.port)
    try:
        opened_s = time.monotonic()
        eventually(try_an_episode, timeout_s=5.0)
        assert time.monotonic() - opened_s < 5.0
    finally:
        client.close()
        second.stop()
