"""One suite, two ways to the same server: in memory and through real gRPC."""

from __future__ import annotations

import numpy as np
import pytest

from robot_sdk.client import connect
from robot_sdk.spec import ActionDimension, ObservationKey, PolicySpec
from robot_sdk.testing import FakeServer, FakeTransport
from tests.contract.grpc_server import GrpcFakeServer

POLICY = PolicySpec(
    name="reach",
    version="1",
    action_dimensions=(
        ActionDimension("x", "m", "base", "delta", -1.0, 1.0),
        ActionDimension("y", "m", "base", "delta", -1.0, 1.0),
    ),
    control_hz=20.0,
    horizon=8,
    executed_steps=4,
    observation_keys=(
        ObservationKey("observation/state", "float32", (2,)),
        ObservationKey("images/camera", "uint8", (0, 0), is_image=True, required=False),
        ObservationKey("privileged/pose", "float64", (3,), required=False, privileged=True),
    ),
)


class Rig:
    """A fake server and a way to connect clients to it."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.fake = FakeServer(
            specs=(POLICY,), lease_ttl_s=2.0, heartbeat_interval_s=0.05, policy=step_policy
        )
        self._grpc: GrpcFakeServer | None = None
        self._clients = []

    def connect(self, **options):
        if self.kind == "memory":
            client = connect("fake:1", transport=FakeTransport(self.fake), **options)
        else:
            if self._grpc is None:
                self._grpc = GrpcFakeServer(self.fake)
            client = connect(self._grpc.target, **options)
        self._clients.append(client)
        return client

    def close(self) -> None:
        for client in self._clients:
            client.close()
        if self._grpc is not None:
            self._grpc.stop()


def step_policy(item):
    """Row i of the chunk for step s holds s + i, so that a test can see which row is which."""
    rows = item.control_step + np.arange(POLICY.horizon, dtype=np.float32)
    return np.stack([rows, -rows], axis=1)


@pytest.fixture(params=["memory", "grpc"])
def rig(request):
    rig = Rig(request.param)
    yield rig
    rig.close()
