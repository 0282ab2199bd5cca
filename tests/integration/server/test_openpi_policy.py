"""A policy server elsewhere, by openpi's protocol, that behaves well, badly, or not at all."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from websockets.sync.server import ServerConnection

from robot_sdk.api.v1 import policy_pb2
from robot_sdk.clock import SYSTEM_CLOCK
from robot_sdk.errors import (
    BadModelOutputError,
    ObservationMismatchError,
    RobotSdkError,
    WorkerUnavailableError,
    from_detail,
)
from robot_sdk.images import encode_image
from robot_sdk.tensors import decode_tensor, encode_tensor
from server.policy.interface import PolicyInput, PolicyOutput
from server.policy.openpi.factory import create
from server.policy.openpi.pictures import fit
from tests.fakes.openpi_server import (
    FakeOpenpiServer,
    counting,
    hang_up,
    pack,
    rows,
    saying,
)
from tests.integration.server.harness import REPOSITORY, Chunks, Client, Robot, Server, wait_until

OPENPI_PYTHON = REPOSITORY / ".venv-bench/bin/python"
OPENPI_SERVER = REPOSITORY / "tests/fakes/openpi_client_server.py"
INSTRUCTION = "pick up the milk: é 拿"
KEYS = ["observation/pos", "observation/rest", "images/agentview"]
#: Four colours, each in a corner of its own; the sums of a pixel are 100, 200, 300, 400.
MARKER = np.zeros((60, 80, 3), np.uint8)
MARKER[:30, :40] = (100, 0, 0)
MARKER[:30, 40:] = (0, 200, 0)
MARKER[30:, :40] = (100, 0, 200)
MARKER[30:, 40:] = (200, 200, 0)


def toml(url: str, more: str = "", policy: str = "", picture: str = "rotate_180 = true") -> str:
    return f"""
[policies.fake]
kind = "openpi"
{policy}
[policies.fake.options]
url = "{url}"
recipe = "libero-openpi"
embodiments = []
pictures = [{{key = "images/agentview", to = "observation/image", {picture}}}]
state = [
  {{key = "observation/pos", to = "observation/state", width = 3}},
  {{key = "observation/rest", to = "observation/state", width = 5}},
]
{more}
"""


@dataclass
class Shared:
    """One server with default settings and what it asks, for all tests that change neither."""

    remote: FakeOpenpiServer
    server: Server


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    fake = FakeOpenpiServer().start()
    server = Server(tmp_path_factory.mktemp("shared"), toml(fake.url))
    yield Shared(fake, server)
    server.close()
    fake.stop()


@pytest.fixture
def remote(shared: Shared) -> FakeOpenpiServer:
    shared.remote.will()
    return shared.remote


@pytest.fixture
def own_remote() -> Iterator[FakeOpenpiServer]:
    """For tests that change how it behaves towards everybody."""
    fake = FakeOpenpiServer().start()
    yield fake
    fake.stop()


@pytest.fixture
def chunks_on(
    shared: Shared, start_server: Callable[..., Server], connect: Callable[..., Client]
) -> Iterator[Callable[..., Chunks]]:
    """Opens a stream on the shared server, or on one with settings of its own."""
    robots: list[Robot] = []

    def enter(*settings: str) -> Chunks:
        is_shared = settings == (shared.remote.url,)
        robot = Robot(connect(shared.server if is_shared else start_server(toml(*settings))))
        robots.append(robot)
        robot.admitted()
        robot.keep_alive()
        chunks = robot.chunks(observation_keys=KEYS, instruction=INSTRUCTION)
        chunks.opened()
        return chunks

    yield enter
    for robot in robots:
        robot.drop()


def observe(chunks: Chunks, sequence: int, picture: Any = MARKER) -> None:
    observation = policy_pb2.Observation(
        sequence=sequence,
        control_step=7,
        tensors={
            "observation/pos": encode_tensor(np.array([1, 2, 3], np.float32)),
            "observation/rest": encode_tensor(np.array([4, 5, 6, 7, 8], np.float32)),
        },
        images={"images/agentview": encode_image(picture)},
    )
    chunks.send(policy_pb2.ChunksRequest(observation=observation))


def actions(chunks: Chunks) -> Any:
    """The next message, which must be a chunk."""
    message = chunks.inbox.next()
    assert message.WhichOneof("message") == "chunk", message
    assert message.chunk.control_step == 7
    return decode_tensor(message.chunk.actions)


def failure(chunks: Chunks) -> RobotSdkError:
    """The next message, which must be a failure."""
    message = chunks.inbox.next()
    assert message.WhichOneof("message") == "failed", message
    return from_detail(message.failed.error)


def test_an_observation_goes_out_in_openpi_s_words_and_the_chunk_comes_back(
    remote: FakeOpenpiServer, chunks_on: Callable[..., Chunks]
) -> None:
    chunks = chunks_on(remote.url)

    observe(chunks, 1)

    np.testing.assert_allclose(actions(chunks), rows(), atol=1e-7)
    (seen,) = remote.seen
    assert set(seen) == {"observation/image", "observation/state", "prompt"}
    assert seen["observation/state"].tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert seen["prompt"] == INSTRUCTION
    # F6: turned by half a turn, once.
    np.testing.assert_array_equal(seen["observation/image"], MARKER[::-1, ::-1])


@pytest.mark.parametrize(
    "reply",
    [
        pack(rows(dtype=np.float32)),
        pack({"actions": rows()[None]}),
        pack({"actions": rows(dtype=np.dtype(">f8"))}),
    ],
    ids=["array alone", "batch of one", "big-endian"],
)
def test_answers_of_other_servers_of_the_protocol_are_understood(
    remote: FakeOpenpiServer, chunks_on: Callable[..., Chunks], reply: bytes
) -> None:
    remote.will(saying(reply))
    chunks = chunks_on(remote.url)

    observe(chunks, 1)

    np.testing.assert_allclose(actions(chunks), rows(), atol=1e-7)


OBJECTS = {b"__ndarray__": True, b"dtype": "|O", b"data": b"", b"shape": [0]}
BAD_ANSWERS = {
    "too few rows": ({"actions": rows(8)}, r"\(8, 7\)"),
    "too wide": ({"actions": rows(width=8)}, r"\(10, 8\)"),
    "flat": ({"actions": rows()[:, 0]}, r"\(10,\)"),
    "empty": ({"actions": rows(0)}, r"\(0, 7\)"),
    "ragged": ({"actions": [[0.0] * 7] * 9 + [[0.0] * 6]}, "different lengths"),
    "not a number": ({"actions": np.full((10, 7), np.nan)}, "finite"),
    "no actions": ({"action": rows()}, "actions_keys"),
    "texts": ({"actions": ["a"]}, "dtype"),
    "objects": ({"actions": OBJECTS}, "openpi message"),
    "garbage": (b"\xc1\xc1", "openpi message"),
    "vLLM-Omni's error": ({"type": "error", "message": "Internal inference error"}, "Internal"),
    "openpi's error": ("Traceback\n  File \"secret.py\"\nKeyError: 'image'", "KeyError: 'image'"),
}


@pytest.mark.parametrize("kind", list(BAD_ANSWERS))
def test_a14_an_answer_that_is_no_chunk_is_named_and_the_next_one_is_used(
    remote: FakeOpenpiServer, chunks_on: Callable[..., Chunks], kind: str
) -> None:
    answer, words = BAD_ANSWERS[kind]
    remote.will(saying(answer))
    chunks = chunks_on(remote.url)

    observe(chunks, 1)
    error = failure(chunks)
    observe(chunks, 2)

    assert isinstance(error, BadModelOutputError)
    assert "secret.py" not in str(error)
    with pytest.raises(BadModelOutputError, match=words):
        raise error
    np.testing.assert_allclose(actions(chunks), rows(), atol=1e-7)


def test_a6_a_server_that_dies_in_mid_inference_costs_that_observation_and_comes_back(
    remote: FakeOpenpiServer, chunks_on: Callable[..., Chunks]
) -> None:
    remote.will(hang_up())
    chunks = chunks_on(remote.url)
    num_connections = remote.num_connections

    observe(chunks, 1)
    error = failure(chunks)
    observe(chunks, 2)

    assert isinstance(error, WorkerUnavailableError)
    assert "mid-inference" in str(error)
    assert actions(chunks).shape == (10, 7)
    assert remote.num_connections == num_connections + 1


def test_a_connection_that_was_closed_while_idle_costs_nothing(
    remote: FakeOpenpiServer, chunks_on: Callable[..., Chunks]
) -> None:
    chunks = chunks_on(remote.url)
    observe(chunks, 1)
    actions(chunks)

    remote.close_all()
    wait_until(lambda: remote.num_open == 0)
    observe(chunks, 2)

    assert actions(chunks).shape == (10, 7)


def test_a4_one_answer_that_is_too_late_does_not_become_that_of_the_next_observation(
    remote: FakeOpenpiServer, chunks_on: Callable[..., Chunks]
) -> None:
    late = rows() * 0.0 + 0.99
    remote.will(counting(delay_s=3.0), saying({"actions": late}))
    chunks = chunks_on(remote.url, "timeout_s = 1.5")

    observe(chunks, 1)
    error = failure(chunks)
    observe(chunks, 2)

    assert isinstance(error, WorkerUnavailableError)
    assert "timeout_s" in str(error)
    np.testing.assert_allclose(actions(chunks), late, atol=1e-7)


def test_a_second_answer_does_not_become_that_of_the_next_observation(
    remote: FakeOpenpiServer, chunks_on: Callable[..., Chunks]
) -> None:
    def twice(connection: ServerConnection, observation: dict[str, Any]) -> None:
        connection.send(pack({"actions": rows()}))
        connection.send(pack({"actions": rows() * 0.0 + 0.99}))

    remote.will(twice)
    chunks = chunks_on(remote.url)
    observe(chunks, 1)
    first = actions(chunks)
    # Longer than a message needs on loopback; were it too short, the test would see less.
    SYSTEM_CLOCK.sleep_until(SYSTEM_CLOCK.now_s() + 0.3)
    observe(chunks, 2)

    np.testing.assert_allclose(first, rows(), atol=1e-7)
    np.testing.assert_allclose(actions(chunks), rows(), atol=1e-7)


def test_a_message_that_never_ends_costs_its_observation_and_no_more(
    remote: FakeOpenpiServer, chunks_on: Callable[..., Chunks]
) -> None:
    def endless(connection: ServerConnection, observation: dict[str, Any]) -> None:
        connection.send(b"x" for _ in range(200_000))

    remote.will(endless)
    chunks = chunks_on(remote.url, "timeout_s = 5.0")
    observe(chunks, 1)
    error = failure(chunks)
    observe(chunks, 2)

    assert isinstance(error, WorkerUnavailableError)
    np.testing.assert_allclose(actions(chunks), rows(), atol=1e-7)


def test_what_is_told_of_a_broken_message_is_short(
    remote: FakeOpenpiServer, chunks_on: Callable[..., Chunks]
) -> None:
    dtype = b"f4," * 100_000
    remote.will(saying(msgspec.msgpack.encode({"a": {b"__ndarray__": True, b"dtype": dtype}})))
    chunks = chunks_on(remote.url)
    observe(chunks, 1)
    assert len(str(failure(chunks))) < 1_000


def test_when_the_server_falls_silent_the_rest_of_the_batch_does_not_wait_as_long_again(
    own_remote: FakeOpenpiServer,
) -> None:
    own_remote.will(*[counting(delay_s=2.5)] * 3)
    policy = create(
        url=own_remote.url,
        recipe="libero-openpi",
        state=[{"key": "s", "to": "s", "width": 1}],
        timeout_s=1.0,
    )
    batch = [PolicyInput("go", {"s": np.zeros(1, np.float32)}, {}, i, 0) for i in range(3)]

    silent = policy.infer(batch)
    num_seen = len(own_remote.seen)
    own_remote.will()
    later = policy.infer(batch)
    policy.close()

    assert [type(outcome) for outcome in silent] == [WorkerUnavailableError] * 3
    assert num_seen == 1
    assert [type(outcome) for outcome in later] == [PolicyOutput] * 3


def test_a_server_that_is_not_there_is_waited_for_and_does_not_stop_this_one(
    chunks_on: Callable[..., Chunks],
) -> None:
    remote = FakeOpenpiServer().start()
    remote.stop()
    chunks = chunks_on(remote.url)
    observe(chunks, 1)
    assert isinstance(failure(chunks), WorkerUnavailableError)

    remote.start()
    deadline_s = SYSTEM_CLOCK.now_s() + 10.0
    for sequence in range(2, 1000):
        observe(chunks, sequence)
        message = chunks.inbox.next()
        if message.WhichOneof("message") == "chunk":
            break
        assert SYSTEM_CLOCK.now_s() < deadline_s, "not back within 10 s"
        SYSTEM_CLOCK.sleep_until(SYSTEM_CLOCK.now_s() + 0.05)

    remote.stop()


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ("Robot policy not available", "Robot policy not available"),
        ({"needs_session_id": True}, "session_id"),
        ([1, 2], "no policy server"),
    ],
)
def test_a_server_that_is_no_policy_server_says_so(
    own_remote: FakeOpenpiServer, chunks_on: Callable[..., Chunks], metadata: Any, words: str
) -> None:
    own_remote.metadata = metadata
    chunks = chunks_on(own_remote.url)
    wait_until(lambda: own_remote.num_connections == 1)
    SYSTEM_CLOCK.sleep_until(SYSTEM_CLOCK.now_s() + 0.3)  # beyond the first pause between tries

    observe(chunks, 1)

    with pytest.raises(WorkerUnavailableError, match=words):
        raise failure(chunks)


def test_a12_a_picture_of_another_size_is_refused_by_name_before_it_is_sent(
    remote: FakeOpenpiServer, chunks_on: Callable[..., Chunks]
) -> None:
    exact = 'from_height_px = 60, from_width_px = 80, layout = "chw"'
    chunks = chunks_on(remote.url, "", "", exact)

    observe(chunks, 1, MARKER[:, :-1])
    with pytest.raises(ObservationMismatchError, match="images/agentview"):
        raise failure(chunks)
    assert remote.seen == []
    observe(chunks, 2)

    actions(chunks)
    np.testing.assert_array_equal(remote.seen[0]["observation/image"], MARKER.transpose(2, 0, 1))


def test_several_robots_share_the_connections_of_a_worker(
    own_remote: FakeOpenpiServer,
    start_server: Callable[..., Server],
    connect: Callable[..., Client],
) -> None:
    own_remote.default = counting(delay_s=0.3)
    server = start_server(
        toml(own_remote.url, "connections = 4", 'batcher = "fifo"\nmax_batch = 4')
    )
    robots = [Robot(connect(server), robot_id=f"r{i}") for i in range(4)]
    streams = []
    for robot in robots:
        robot.admitted()
        robot.keep_alive()
        streams.append(robot.chunks(observation_keys=KEYS, instruction=INSTRUCTION))
        streams[-1].opened()

    for sequence in (1, 2):
        for stream in streams:
            observe(stream, sequence)
        for stream in streams:
            assert actions(stream).shape == (10, 7)

    assert own_remote.most_at_once > 1
    for robot in robots:
        robot.drop()


def test_the_key_is_sent_and_told_to_nobody(
    own_remote: FakeOpenpiServer,
    start_server: Callable[..., Server],
    connect: Callable[..., Client],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("POLICY_KEY", "very-secret-1")
    own_remote.will(saying("RuntimeError: bad key very-secret-1"))
    server = start_server(toml(own_remote.url, 'api_key_env = "POLICY_KEY"'))
    robot = Robot(connect(server))
    robot.admitted()
    robot.keep_alive()
    chunks = robot.chunks(observation_keys=KEYS, instruction=INSTRUCTION)
    chunks.opened()

    observe(chunks, 1)
    error = failure(chunks)

    assert own_remote.headers[0]["Authorization"] == "Api-Key very-secret-1"
    assert "bad key [key]" in str(error)
    assert "very-secret-1" not in str(error) + server.log
    robot.drop()


def test_an_option_that_is_wrong_stops_the_server_with_its_name(
    start_server: Callable[..., Server],
) -> None:
    server = start_server(toml("http://host"), wait=False)

    assert server.wait_for_exit() == 3
    assert "url" in server.log


@pytest.fixture(scope="module")
def openpi() -> Iterator[str]:
    """openpi-client's own code at the other end."""
    if not OPENPI_PYTHON.exists():
        pytest.skip("needs .venv-bench, which `make bench` makes")
    process = subprocess.Popen(
        [OPENPI_PYTHON, str(OPENPI_SERVER), "serve"], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield f"ws://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_openpi_s_own_code_reads_what_is_sent_and_is_read(
    openpi: str, chunks_on: Callable[..., Chunks]
) -> None:
    chunks = chunks_on(openpi)

    observe(chunks, 1)
    found = actions(chunks)

    np.testing.assert_allclose(found[0] * 100, [1, 2, 3, 4, 5, 6, 7], atol=1e-5)
    np.testing.assert_allclose(found[1, :4] * 1000, [400, 300, 200, 100], atol=1e-4)


@pytest.mark.parametrize("size", [(480, 640), (640, 480), (256, 256), (97, 311), (100, 100)])
def test_pictures_are_fitted_as_openpi_fits_them(openpi: str, tmp_path: Path, size: Any) -> None:
    picture = np.random.default_rng(0).integers(0, 256, (*size, 3), np.uint8)
    source, target = tmp_path / "in.npy", tmp_path / "out.npy"
    np.save(source, picture)
    subprocess.run([OPENPI_PYTHON, OPENPI_SERVER, "fit", "224", "224", source, target], check=True)

    difference = np.abs(fit(picture, 224, 224).astype(int) - np.load(target).astype(int))

    # Bit for bit with one Pillow; another release may round a pixel differently.
    assert difference.max() <= 1
