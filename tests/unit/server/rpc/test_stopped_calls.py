"""Calls that end before their work has, over real gRPC on loopback: each says why."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from robot_sdk.api.v1 import brain_pb2, brain_pb2_grpc, policy_pb2, policy_pb2_grpc
from robot_sdk.clock import SYSTEM_CLOCK
from robot_sdk.errors import BadModelOutputError, CancelledByServerError, from_rpc_error
from robot_sdk.telemetry import no_telemetry
from server.brain.interface import EngineInfo, Event, Finished, Text, Turn
from server.brain.transcript import Draft, Transcript
from server.core.turns import TurnLog
from server.rpc.brain_service import BrainServicer
from server.rpc.policy_service import PolicyServicer
from tests.fakes.policies import StepPolicy

_PATIENCE_S = 20.0


def stop_all(live: Any) -> None:
    """End the episode's calls, as the hub does. Takes effect where the handler next waits."""
    for call in live.calls:
        call.stop(CancelledByServerError("the episode has ended"))


class StoppingTranscript(Transcript):
    """Its episode ends while a turn is drafted: right before `accepted` is written."""

    def __init__(self, live: Any) -> None:
        super().__init__()
        self._live = live

    def draft(self, *arguments: Any) -> Draft:
        stop_all(self._live)
        return super().draft(*arguments)


class StoppingDriver:
    """Its episode ends while `opened` is made: right before it is written."""

    name = "fake"
    spec = StepPolicy().spec
    wire_spec = policy_pb2.PolicySpec()

    def __init__(self, live: Any) -> None:
        self._live = live

    def ready_spec(self) -> Any:
        return self.spec

    def open_stream(self, *_: Any) -> StoppingStream:
        return StoppingStream(self._live)

    def close_stream(self, _: object) -> None:
        pass


class StoppingStream:
    """What `open_stream` returns; asked when `opened` is made."""

    def __init__(self, live: Any) -> None:
        self._live = live

    @property
    def first_observation_in_s(self) -> None:
        stop_all(self._live)


def episode() -> Any:
    info = SimpleNamespace(uses_brain=True, policies=("fake",), embodiment="test")
    return SimpleNamespace(
        episode_id="e",
        lease=SimpleNamespace(info=info),
        turns=TurnLog(),
        calls=set(),
        transcript=Transcript(),
    )


async def ended_with(
    register: Callable[[grpc.aio.Server], None], call: Callable[[grpc.aio.Channel], Awaitable[Any]]
) -> Exception:
    """Serve one call that must fail; returns its error."""
    server = grpc.aio.server()
    register(server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            with pytest.raises(grpc.RpcError) as caught:
                await asyncio.wait_for(call(channel), _PATIENCE_S)
            return from_rpc_error(caught.value)
    finally:
        await server.stop(0)


async def read_all(stream: Any) -> None:
    async for _ in stream:
        pass


def turn_ended_with(live: Any, brain: Any) -> Exception:
    """Ask `brain` for a turn that must fail; returns the error that its client gets."""

    async def hold_turn(_: Any) -> float:
        return 0.0

    failed = []
    services = SimpleNamespace(brain=brain, brain_totals=SimpleNamespace(aborted=0, committed=0))
    hub = SimpleNamespace(
        authorise=lambda _: live,
        slack_s=lambda _: None,
        hold_turn=hold_turn,
        turn_failed=failed.append,
    )
    servicer = BrainServicer(
        hub,  # type: ignore[arg-type]
        services,  # type: ignore[arg-type]
        SYSTEM_CLOCK,
        no_telemetry(),
        None,
    )
    text = brain_pb2.ContentPart(text="hello")
    message = brain_pb2.Message(role=brain_pb2.ROLE_USER, parts=[text])
    error = asyncio.run(
        ended_with(
            lambda server: brain_pb2_grpc.add_BrainServiceServicer_to_server(servicer, server),
            lambda channel: read_all(
                brain_pb2_grpc.BrainServiceStub(channel).Decide(
                    brain_pb2.DecideRequest(new_messages=[message])
                )
            ),
        )
    )
    assert (services.brain_totals.aborted, services.brain_totals.committed) == (1, 0)
    assert live.calls == set()
    assert failed == [live]
    return error


class FakeEngine:
    """Says what it is given."""

    info = EngineInfo("fake", "fake-1")
    is_ready = True

    def __init__(self, *events: Event) -> None:
        self._events = events

    async def decide(self, _: Turn) -> AsyncGenerator[Event, None]:
        for event in self._events:
            yield event


class EndlessEngine(FakeEngine):
    """Writes for ever; its episode ends at the hundredth word."""

    def __init__(self, live: Any) -> None:
        super().__init__()
        self._live = live

    async def decide(self, _: Turn) -> AsyncGenerator[Event, None]:
        for number in itertools.count():
            if number == 100:
                stop_all(self._live)
            yield Text("word ")


def test_a8_a_turn_stopped_while_it_is_accepted_tells_its_client() -> None:
    live = episode()
    live.transcript = StoppingTranscript(live)

    error = turn_ended_with(live, FakeEngine())

    assert isinstance(error, CancelledByServerError)
    assert "the episode has ended" in str(error)


def test_a8_a_turn_stopped_in_the_middle_of_its_words_tells_its_client() -> None:
    live = episode()

    error = turn_ended_with(live, EndlessEngine(live))

    assert isinstance(error, CancelledByServerError)
    assert "the episode has ended" in str(error)


@pytest.mark.parametrize(
    ("events", "kind"),
    [
        ([Text("word")], BadModelOutputError),
        ([], BadModelOutputError),
        ([Text("word"), Finished("aborted")], CancelledByServerError),
    ],
)
def test_a_turn_that_its_engine_does_not_finish_ends_with_an_error(
    events: list[Event], kind: type[Exception]
) -> None:
    assert isinstance(turn_ended_with(episode(), FakeEngine(*events)), kind)


def test_a8_a_chunk_stream_stopped_while_it_is_opened_tells_its_client() -> None:
    live = episode()
    servicer = PolicyServicer(
        SimpleNamespace(authorise=lambda _: live),  # type: ignore[arg-type]
        SimpleNamespace(policies={"fake": StoppingDriver(live)}),  # type: ignore[arg-type]
        SYSTEM_CLOCK,
        None,
    )
    opening = policy_pb2.ChunksOpen(policy="fake", observation_keys=["observation/state"])

    async def call(channel: grpc.aio.Channel) -> None:
        stream = policy_pb2_grpc.PolicyServiceStub(channel).Chunks()
        await stream.write(policy_pb2.ChunksRequest(open=opening))
        await read_all(stream)

    error = asyncio.run(ended_with(servicer.register, call))

    assert isinstance(error, CancelledByServerError)
    assert "the episode has ended" in str(error)
    assert live.calls == set()
