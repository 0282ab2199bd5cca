"""A turn that the admission policy lets wait, over real gRPC on loopback."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from robot_sdk.api.v1 import brain_pb2, brain_pb2_grpc
from robot_sdk.clock import SYSTEM_CLOCK
from robot_sdk.telemetry import attributes as attr
from robot_sdk.telemetry import no_telemetry
from server.brain.interface import EngineInfo, Finished, Timing
from server.brain.transcript import Transcript
from server.core.turns import TurnLog
from server.rpc.brain_service import BrainServicer

_PATIENCE_S = 20.0


class Engine:
    """Says nothing, after a wait of its own."""

    info = EngineInfo("fake", "fake-1")
    is_ready = True

    def __init__(self, queue_s: float | None) -> None:
        self._queue_s = queue_s

    async def decide(self, _: Any) -> Any:
        yield Finished(timing=Timing(queue_s=self._queue_s))

    def commit(self, *_: Any) -> None:
        pass


def decided(
    held_s: float, queue_s: float | None
) -> tuple[brain_pb2.DecideDone, list[tuple[str, float]]]:
    """One turn; returns its end and the durations of the spans beside its own."""
    recorded: list[tuple[str, float]] = []
    telemetry = no_telemetry()
    telemetry.record_span = lambda name, start_s, end_s, **_: recorded.append(  # type: ignore[method-assign]
        (name, end_s - start_s)
    )

    async def hold_turn(_: Any) -> float:
        return held_s

    live = SimpleNamespace(
        episode_id="e",
        lease=SimpleNamespace(info=SimpleNamespace(uses_brain=True)),
        turns=TurnLog(),
        calls=set(),
        transcript=Transcript(),
    )
    hub = SimpleNamespace(
        authorise=lambda _: live,
        slack_s=lambda _: None,
        hold_turn=hold_turn,
        turn_committed=lambda *_: None,
    )
    totals = SimpleNamespace(aborted=0, committed=0)
    services = SimpleNamespace(brain=Engine(queue_s), brain_totals=totals)
    servicer = BrainServicer(hub, services, SYSTEM_CLOCK, telemetry, None)  # type: ignore[arg-type]
    text = brain_pb2.ContentPart(text="hello")
    message = brain_pb2.Message(role=brain_pb2.ROLE_USER, parts=[text])

    async def ask() -> brain_pb2.DecideDone:
        server = grpc.aio.server()
        brain_pb2_grpc.add_BrainServiceServicer_to_server(servicer, server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
                stub = brain_pb2_grpc.BrainServiceStub(channel)
                request = brain_pb2.DecideRequest(new_messages=[message])
                answers = [answer async for answer in stub.Decide(request)]
            return answers[-1].done
        finally:
            await server.stop(0)

    return asyncio.run(asyncio.wait_for(ask(), _PATIENCE_S)), recorded


@pytest.mark.parametrize(("queue_s", "waited_s"), [(0.5, 3.5), (None, 3.0)])
def test_the_time_that_a_turn_was_held_counts_as_waiting_for_the_engine(
    queue_s: float | None, waited_s: float
) -> None:
    done, recorded = decided(3.0, queue_s)

    assert done.timing.queue_s == waited_s
    assert recorded == [(attr.SPAN_SERVER_HOLD, pytest.approx(3.0))]


@pytest.mark.parametrize("queue_s", [0.5, None])
def test_a_turn_that_was_not_held_waits_for_the_engine_alone(queue_s: float | None) -> None:
    done, recorded = decided(0.0, queue_s)

    assert (done.timing.queue_s if done.timing.HasField("queue_s") else None) == queue_s
    assert recorded == []
