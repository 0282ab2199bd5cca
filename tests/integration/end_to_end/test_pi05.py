"""A tiny π0.5 with random weights in a real worker: chunks over gRPC, and an episode by the SDK."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

import numpy as np
import pytest

from robot_sdk.client import connect as connect_sdk
from robot_sdk.clock import SYSTEM_CLOCK
from robot_sdk.errors import InvalidArgumentError, ObservationMismatchError, from_detail
from robot_sdk.images import encode_image
from robot_sdk.observation import Observation
from robot_sdk.runner import EpisodeOptions, run_episode
from robot_sdk.tensors import decode_tensor
from robot_sdk.testing import SimpleRobot
from robot_sdk.tools import ToolRegistry, finish
from tests.integration.end_to_end.conftest import Start
from tests.integration.end_to_end.harness import FINISH, Tools, config
from tests.integration.server.harness import Client, Robot

pytest.importorskip("torch", reason="needs the extra [pi05]")
pytest.importorskip("sentencepiece", reason="needs the extra [pi05]")

from server.policy.interface import PolicyInput, PolicyOutput
from server.policy.pi05 import recipe
from tests.unit.server.policy.pi05.helpers import tiny_policy, train_tokenizer

CAMERAS = ("images/agentview", "images/wrist")
KEYS = (*CAMERAS, "observation/state")


def recipe_for_any_robot(folder: Path) -> Path:
    """lerobot's recipe for LIBERO, for any robot with pictures of 40 x 40: named by path."""
    tree = json.loads((Path(recipe.__file__).parent / "recipes/libero-lerobot.json").read_text())
    path = folder / "mine.json"
    cameras = [{"key": key, "height_px": 40, "width_px": 40} for key in CAMERAS]
    path.write_text(json.dumps(tree | {"embodiments": [], "cameras": cameras}))
    return path


def server_config(tokenizer: Path, recipe: str) -> str:
    toml = config([("drive", {"steps": 25, "instruction": "pick up the milk"}), FINISH])
    before, _, rest = toml.partition("[policies.fake]")
    return f"""{before}
[policies.fake]
kind = "pi05"
[policies.fake.options]
recipe = {json.dumps(recipe)}
size = "tiny"
device = "cpu"
num_flow_steps = 3
num_threads = 1
random_weights = true
tokenizer = {json.dumps(str(tokenizer))}
[episodes]{rest.partition("[episodes]")[2]}"""


def pictures(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: rng.integers(0, 256, (40, 40, 3), dtype=np.uint8) for name in CAMERAS}


def test_chunks_over_grpc_are_those_of_the_policy_and_bad_input_is_named(
    start_server: Start, tmp_path: Path
) -> None:
    tokenizer = train_tokenizer(tmp_path)
    toml = server_config(tokenizer, str(recipe_for_any_robot(tmp_path)))
    robot = Robot(Client(start_server(toml).address))
    robot.admitted()
    robot.keep_alive()
    chunks = robot.chunks(observation_keys=KEYS, noise_seed=7)
    spec = chunks.opened().spec
    state = np.linspace(-0.5, 0.5, 8).astype(np.float32)
    sent = {name: encode_image(picture) for name, picture in pictures(1).items()}

    chunks.observe(1, state=state, images=sent)
    chunk = chunks.inbox.until("chunk")
    chunks.observe(2, state=state[:7], images=sent)
    narrow = from_detail(chunks.inbox.until("failed").error)
    chunks.observe(3, state=state, images={CAMERAS[0]: sent[CAMERAS[0]]})
    blind = from_detail(chunks.inbox.until("failed").error)
    large = encode_image(np.zeros((48, 40, 3), np.uint8))
    chunks.observe(4, state=state, images=sent | {CAMERAS[1]: large})
    wrong_size = from_detail(chunks.inbox.until("failed").error)
    chunks.observe(5, state=state, images=sent)
    last = chunks.inbox.until("chunk")
    chunks.close()
    chunks = robot.chunks(observation_keys=KEYS, instruction="pick up the milk " * 200)
    chunks.observe(1, state=state, images=sent)
    long = from_detail(chunks.inbox.until("failed").error)
    robot.end()

    (expected,) = tiny_policy(tokenizer).infer(
        [PolicyInput("pick up the milk", {"observation/state": state}, pictures(1), 1, 0, 7)]
    )
    assert isinstance(expected, PolicyOutput)
    assert np.allclose(decode_tensor(chunk.actions, "actions"), expected.actions, atol=1e-5)
    assert spec.horizon == 50
    assert spec.stand_in
    assert chunk.timing.vision_s > 0
    assert chunk.timing.prefill_s > 0
    assert chunk.timing.denoise_s > 0
    assert isinstance(narrow, ObservationMismatchError)
    assert narrow.field == "observation/state"
    assert isinstance(blind, ObservationMismatchError)
    assert blind.field == "images/wrist"
    assert isinstance(wrong_size, ObservationMismatchError)
    assert (wrong_size.field, wrong_size.value) == ("images/wrist", "uint8 (48, 40)")
    assert type(long) is InvalidArgumentError
    assert long.field == "instruction"
    assert "200 tokens or fewer" in long.allowed[0]
    assert decode_tensor(last.actions, "actions").shape == (50, 7)


class SevenAxes(SimpleRobot):
    """Has what LIBERO's robot has: two cameras, a state of eight numbers, seven axes."""

    def __init__(self) -> None:
        super().__init__(action_dim=7)
        self._num_seen = 0

    def observe(self, keys: Collection[str] | None = None) -> Observation:
        self._num_seen += 1
        images = {name: p for name, p in pictures(self._num_seen).items() if keys and name in keys}
        return Observation(
            tensors={"observation/state": np.zeros(8, np.float32)},
            images=images,
            captured_s=SYSTEM_CLOCK.now_s(),
            frame_ids=dict.fromkeys(images, self._num_seen),
        )


def test_an_episode_of_the_sdk_is_driven_by_pi05(start_server: Start, tmp_path: Path) -> None:
    server = start_server(server_config(train_tokenizer(tmp_path), "libero-lerobot"))
    robot = SevenAxes()

    with connect_sdk(server.address) as client:
        result = run_episode(
            client,
            robot,
            lambda running: ToolRegistry(Tools(running), finish),
            "pick up the milk",
            EpisodeOptions(policies=("fake",), embodiment="libero-panda"),
        )

    assert result.success
    assert result.chunks > 0
    assert robot.actions
    assert all(action.shape == (7,) for action in robot.actions)
    assert np.abs(robot.actions).max() <= 1.0
    assert np.ptp(robot.actions) > 0.01
