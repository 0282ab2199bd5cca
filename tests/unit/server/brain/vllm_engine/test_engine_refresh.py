"""The front end's side of a refresh, over a worker that is only played."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from robot_sdk.clock import VirtualClock
from robot_sdk.messages import Sampling
from server.brain.interface import Turn
from server.brain.vllm_engine import engine as engine_module
from server.brain.vllm_engine.engine import VllmEngine
from server.worker.framing import Frame
from server.worker.supervisor import WorkerState


class FakeSupervisor:
    """A worker that is there; the test plays what it says."""

    def __init__(self, *_: Any, on_frame: Any, on_lost: Any, **__: Any) -> None:
        self.on_frame = on_frame
        self.on_lost = on_lost
        self.state = WorkerState.READY
        self.problem = ""
        self.retry_after_s = 1.0
        self.sent: list[dict[str, Any]] = []

    def send(self, header: dict[str, Any], body: bytes = b"") -> None:
        self.sent.append(header)

    def of(self, operation: str) -> list[dict[str, Any]]:
        return [header for header in self.sent if header["op"] == operation]

    def say(self, **header: Any) -> None:
        self.on_frame(Frame(header, b""))

    async def stop(self) -> None:
        self.state = WorkerState.DOWN


class Bench:
    """An engine whose worker has had a turn of episode "e"."""

    def __init__(self) -> None:
        self.engine = VllmEngine({"model_name": "m"}, max_output_bytes=1000, clock=VirtualClock())
        self.worker: FakeSupervisor = self.engine._supervisor  # type: ignore[assignment]

    async def take_turn(self) -> None:
        turn = Turn("e", 0, (), (), Sampling())
        asking = asyncio.ensure_future(anext(self.engine.decide(turn)))
        await asyncio.sleep(0)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)

    async def begin(self) -> asyncio.Future[bool | None]:
        refresh = asyncio.ensure_future(self.engine.refresh("e"))
        await asyncio.sleep(0)
        return refresh


def run(scenario: Callable[[Bench], Awaitable[None]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "Supervisor", FakeSupervisor)

    async def whole() -> None:
        bench = Bench()
        await bench.take_turn()
        async with asyncio.timeout(5):
            await scenario(bench)

    asyncio.run(whole())


@pytest.mark.parametrize("found", [True, False, None])
def test_the_worker_s_answer_is_handed_on(
    found: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(bench: Bench) -> None:
        first, second = await bench.begin(), await bench.begin()
        numbers = [header["refresh"] for header in bench.worker.of("refresh")]
        bench.worker.say(op="refreshed", refresh=numbers[1], found=found)
        assert await second is found
        assert not first.done()
        bench.worker.say(op="refreshed", refresh=numbers[0], found=True)
        assert await first is True
        assert bench.worker.of("cancel_refresh") == []

    run(scenario, monkeypatch)


def test_nothing_is_sent_to_a_worker_that_is_away_or_knows_nothing_of_the_episode(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario(bench: Bench) -> None:
        assert await bench.engine.refresh("never seen") is None
        bench.engine.end_episode("e")
        assert await bench.engine.refresh("e") is None
        await bench.take_turn()
        bench.worker.state = WorkerState.LOADING
        assert await bench.engine.refresh("e") is None
        assert bench.worker.of("refresh") == []

    run(scenario, monkeypatch)


def test_a_worker_that_dies_leaves_no_refresh_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(bench: Bench) -> None:
        refresh = await bench.begin()
        bench.worker.on_lost()
        assert await refresh is None

    run(scenario, monkeypatch)


def test_a_server_that_stops_leaves_no_refresh_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(bench: Bench) -> None:
        refresh = await bench.begin()
        await bench.engine.stop()
        assert await refresh is None

    run(scenario, monkeypatch)


def test_a7_a_refresh_that_is_given_up_is_cancelled_in_the_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario(bench: Bench) -> None:
        refresh = await bench.begin()
        refresh.cancel()
        await asyncio.gather(refresh, return_exceptions=True)
        (asked,) = bench.worker.of("refresh")
        (cancelled,) = bench.worker.of("cancel_refresh")
        assert cancelled["refresh"] == asked["refresh"]
        # The worker answers every refresh, also this one, and nobody waits for it.
        bench.worker.say(op="refreshed", refresh=asked["refresh"], found=None)

    run(scenario, monkeypatch)
