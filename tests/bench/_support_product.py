"""The product's side: `robot_sdk` as a robot uses it, against `python -m server`."""

from __future__ import annotations

import sys
import tempfile
from typing import TYPE_CHECKING

import numpy as np
from _support_load import PROMPT, Sample
from _support_process import Child
from numpy.typing import NDArray

if TYPE_CHECKING:
    from robot_sdk.chunks import PolicyTiming
    from robot_sdk.policy_client import RemotePolicyStream

POLICY = "bench"
_REQUEST_TIMEOUT_S = 30.0


def start_product_server(
    delay_s: float = 0.0, per_item_s: float = 0.0, brain: str = "", pictures: bool = True
) -> tuple[Child, str]:
    """A server with the benchmark's policy alone, all else at its default.

    Args:
        delay_s: What the policy takes for a call.
        per_item_s: And for each observation in it.
        brain: Factory of a brain; empty for a server without one.
        pictures: The policy cannot do without the two pictures.

    Returns:
        The server and its address.
    """
    roles = '["policy", "brain"]' if brain else '["policy"]'
    engine = f'[brain]\nengine = "factory"\nfactory = "{brain}"\n' if brain else ""
    text = f"""
[server]
port = 0
roles = {roles}
log_level = "warning"

[policies.{POLICY}]
kind = "factory"
factory = "_support_policy:make_policy"
options = {{ delay_s = {delay_s}, per_item_s = {per_item_s}, pictures = {str(pictures).lower()} }}

{engine}"""
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as config:
        config.write(text)
        config.flush()
        server = Child([sys.executable, "-m", "server", "--config", config.name])
        while True:
            line = server.read_line(60.0)
            if line.startswith("listening on "):
                return server, line.rpartition(" ")[2]


class ProductSession:
    """One robot: a client of its own, an episode and one open policy stream.

    Attributes:
        last_timing: The server's breakdown of the last chunk; None before the first.
    """

    def __init__(self, address: str, robot: int, pictures: bool = True) -> None:
        from _support_policy import BASE_RGB, STATE, WRIST_RGB

        from robot_sdk.chunks import ChunkArrival, PolicyObservation
        from robot_sdk.client import connect
        from robot_sdk.observation import Observation

        self._arrival, self._observation, self._request = (
            ChunkArrival,
            Observation,
            PolicyObservation,
        )
        self.last_timing: PolicyTiming | None = None
        self._pictures = {BASE_RGB: "base_rgb", WRIST_RGB: "wrist_rgb"} if pictures else {}
        self._state = STATE
        self._client = connect(address)
        self._episode = self._client.episode(
            task=PROMPT, robot_id=f"robot-{robot}", policies=(POLICY,), uses_brain=False
        )
        self._episode.__enter__()
        self._stream: RemotePolicyStream = self._episode.open_policy(
            POLICY, PROMPT, (*self._pictures, STATE), control_hz=20.0
        )
        self._sequence = 0

    def request(self, sample: Sample) -> NDArray[np.floating]:
        self._stream.send(
            self._request(
                sequence=self._sequence,
                control_step=self._sequence,
                observation=self._observation(
                    tensors={self._state: sample.state},
                    images={key: getattr(sample, name) for key, name in self._pictures.items()},
                ),
                buffered_steps=5,
            )
        )
        if not self._stream.wait(_REQUEST_TIMEOUT_S):
            raise TimeoutError(f"no answer to observation {self._sequence}")
        (result,) = self._stream.poll()
        if not isinstance(result, self._arrival) or result.sequence != self._sequence:
            raise RuntimeError(f"observation {self._sequence} got {result}")
        self._sequence += 1
        self.last_timing = result.timing
        actions: NDArray[np.floating] = result.actions
        return actions

    def close(self) -> None:
        self._stream.close()
        self._episode.__exit__(None, None, None)
        self._client.close()
