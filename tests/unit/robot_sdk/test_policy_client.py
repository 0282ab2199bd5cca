from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from robot_sdk.api.v1 import policy_pb2
from robot_sdk.chunks import PolicyObservation
from robot_sdk.client import connect
from robot_sdk.episode import Episode
from robot_sdk.errors import PersistentError
from robot_sdk.observation import Observation
from robot_sdk.policy_client import RemotePolicyStream
from robot_sdk.spec import ActionDimension, PolicySpec
from robot_sdk.testing import FakePolicyInput, FakeServer, FakeTransport
from robot_sdk.testing.fake_transport import FakeChunkCall

SPEC = PolicySpec(
    name="line",
    version="1",
    action_dimensions=(ActionDimension("x", "m", "world", "delta"),),
    control_hz=20.0,
    horizon=10,
    executed_steps=5,
    observation_keys=(),
)
FAULT = "TypeError: not what this library gives"


class FaultyCall(FakeChunkCall):
    """A stream with a fault that no error class foresees, after `num_good` messages."""

    def __init__(self, transport: FakeTransport, num_good: int) -> None:
        super().__init__(transport)
        self._num_good = num_good

    def __iter__(self) -> Iterator[policy_pb2.ChunksResponse]:
        for _, response in zip(range(self._num_good), super().__iter__(), strict=False):
            yield response
        raise TypeError("not what this library gives")


class FaultyTransport(FakeTransport):
    """Its chunk streams are all like that."""

    num_good = 0

    def open_chunks(self) -> FakeChunkCall:
        return FaultyCall(self, self.num_good)


def chunk(_: FakePolicyInput) -> NDArray[np.float32]:
    return np.zeros((10, 1), np.float32)


def observe() -> PolicyObservation:
    return PolicyObservation(
        sequence=0, control_step=0, observation=Observation(), buffered_steps=0
    )


@pytest.fixture
def transport() -> FaultyTransport:
    return FaultyTransport(FakeServer(specs=(SPEC,), policy=chunk))


@pytest.fixture
def episode(transport: FaultyTransport) -> Iterator[Episode]:
    client = connect("fake:1", transport=transport)
    with client, client.episode(task="go", robot_id="r", policies=("line",)) as episode:
        yield episode


def test_a_fault_of_the_reader_while_opening_is_told_and_not_waited_for(episode: Episode) -> None:
    with pytest.raises(PersistentError, match=FAULT):
        episode.open_policy("line", "go", [], timeout_s=60.0)


@pytest.mark.parametrize(
    "use",
    [lambda s: s.poll(), lambda s: s.wait(60.0), lambda s: s.send(observe())],
    ids=["poll", "wait", "send"],
)
def test_a_fault_of_the_reader_later_ends_whatever_uses_the_stream(
    transport: FaultyTransport, episode: Episode, use: Callable[[RemotePolicyStream], object]
) -> None:
    transport.num_good = 1
    with episode.open_policy("line", "go", []) as stream:
        with pytest.raises(PersistentError, match=FAULT):
            stream.wait(60.0)
        with pytest.raises(PersistentError, match=FAULT):
            use(stream)
