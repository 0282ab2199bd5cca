"""What the robot sends is what the server's policy and brain get, whatever it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from robot_sdk.chunks import ChunkArrival, PolicyObservation
from robot_sdk.client import Client, connect
from robot_sdk.errors import InvalidArgumentError, ObservationMismatchError
from robot_sdk.images import normalise_image
from robot_sdk.messages import Message
from robot_sdk.observation import Observation
from robot_sdk.policy_client import RemotePolicyStream
from tests.integration.end_to_end.conftest import Start
from tests.integration.end_to_end.harness import config
from tests.integration.server.harness import Server

STATE = "observation/state"
CAMERA = "images/camera"
TENSORS = {
    STATE: np.arange(5, dtype=np.float32),
    "observation/flags": np.array([[True, False, True], [False, False, True]]),
    "observation/number": np.array(2.5),
    "observation/nothing": np.zeros((0, 4, 4, 3), np.uint8),
    "observation/grid": np.arange(12, dtype=np.int16).reshape(3, 4),
}
PICTURE = np.random.default_rng(0).integers(0, 256, (8, 12, 3), np.uint8)
TEXTS = ["把红色的碗放到盘子上", "🦾🤖 go", "line one\nline two\ttab\r\n", "x" * 20_000, ""]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kept")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, kept: Path) -> Iterator[Server]:
    server = Server(
        tmp_path_factory.mktemp("server"),
        f"""
[brain]
engine = "factory"
factory = "tests.fakes.brains:EchoBrain"
[policies.fake]
kind = "factory"
factory = "tests.fakes.scripted:KeepingPolicy"
options = {{folder = "{kept}"}}
""",
    )
    yield server
    server.close()


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[Client]:
    with connect(server.address) as client:
        yield client


@pytest.fixture
def stream(client: Client) -> Iterator[RemotePolicyStream]:
    with client.episode(task="go", robot_id="robot", policies=("fake",)) as episode:
        with episode.open_policy("fake", "go", (*TENSORS, CAMERA)) as stream:
            yield stream


def observation(sequence: int, image: np.ndarray, **tensors: np.ndarray) -> PolicyObservation:
    return PolicyObservation(
        sequence,
        sequence,
        Observation(tensors={**TENSORS, **tensors}, images={CAMERA: image}),
        0,
    )


def chunk_for(stream: RemotePolicyStream, sent: PolicyObservation) -> np.ndarray:
    stream.send(sent)
    assert stream.wait(30.0)
    (answer,) = stream.poll()
    assert isinstance(answer, ChunkArrival), answer
    return answer.actions


@pytest.mark.parametrize(
    "change",
    [
        lambda array: array,
        lambda array: array.copy(order="F"),
        lambda array: array.astype(array.dtype.newbyteorder(">")),
        lambda array: np.repeat(array[..., None], 2, -1)[..., 0],
        lambda array: array[tuple(slice(None, None, -1) for _ in array.shape)],
    ],
    ids=["plain", "fortran", "big-endian", "strided", "reversed"],
)
def test_a11_arrays_reach_the_policy_bit_equal_whatever_their_layout(
    stream: RemotePolicyStream, kept: Path, change: object
) -> None:
    sent = {name: change(array) for name, array in TENSORS.items()}  # type: ignore[operator]
    picture = change(PICTURE)  # type: ignore[operator]

    chunk_for(stream, observation(1, picture, **sent))

    with np.load(kept / "1.npz") as arrived:
        for name, array in {**sent, CAMERA: picture}.items():
            np.testing.assert_array_equal(arrived[name], array)
            assert arrived[name].shape == array.shape
            assert arrived[name].dtype == array.dtype.newbyteorder("=")


@pytest.mark.parametrize(
    ("picture", "options"),
    [
        (PICTURE.transpose(2, 0, 1), {}),
        (PICTURE.astype(np.float32) / 255, {"float_range": "0..1"}),
        (PICTURE.astype(np.float32), {"float_range": "0..255"}),
        (PICTURE.transpose(2, 0, 1).astype(np.float64) / 255, {"float_range": "0..1"}),
        (np.concatenate([PICTURE, PICTURE[..., :1]], -1), None),
        (PICTURE[..., 0], None),
    ],
    ids=["chw", "float-0..1", "float-0..255", "chw-float", "rgba", "gray"],
)
def test_a12_a_picture_of_another_form_is_the_same_after_normalising_and_never_guessed(
    stream: RemotePolicyStream, kept: Path, picture: np.ndarray, options: dict[str, str] | None
) -> None:
    with pytest.raises(ObservationMismatchError, match=CAMERA):
        stream.send(observation(1, picture))
    if options is None:
        with pytest.raises(InvalidArgumentError, match=CAMERA):
            normalise_image(picture, CAMERA)
        return

    chunk_for(stream, observation(2, normalise_image(picture, CAMERA, **options)))

    with np.load(kept / "2.npz") as arrived:
        np.testing.assert_array_equal(arrived[CAMERA], PICTURE)


@pytest.mark.parametrize("text", TEXTS, ids=["chinese", "emoji", "lines", "20-kb", "empty"])
def test_a13_any_text_reaches_brain_and_policy_and_comes_back(
    client: Client, kept: Path, text: str
) -> None:
    with client.episode(
        task=text or "go",
        robot_id="机器人 🤖",
        run_id="Lauf ü",
        labels={"ort": "küche 🍳"},
        policies=("fake",),
    ) as episode:
        assert episode.decide([Message.of_text("user", text)]).text == text
        with episode.open_policy("fake", text, (*TENSORS, CAMERA)) as stream:
            chunk_for(stream, observation(3, PICTURE))

    assert (kept / "instruction.txt").read_bytes().decode() == text


def test_a1_messages_over_four_megabytes_pass_in_both_directions(start_server: Start) -> None:
    server = start_server(config(policy_options={"horizon": 200_000, "action_dim": 7}))
    state = np.random.default_rng(0).random(3 * 480 * 640 * 3, np.float32)
    with (
        connect(server.address) as client,
        client.episode(task="go", robot_id="robot", policies=("fake",)) as episode,
        episode.open_policy("fake", "go", (STATE,)) as stream,
    ):
        actions = chunk_for(stream, PolicyObservation(0, 4, Observation(tensors={STATE: state}), 0))

    assert state.nbytes > 11_000_000
    assert actions.nbytes == 200_000 * 7 * 4
    assert actions[0, 0] == 4
