"""Refreshes beside the turns: each is begun once and ended once, whatever becomes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from robot_sdk.clock import VirtualClock
from server.core.drain import Drain, begin
from server.core.registry import EpisodeRegistry
from server.rpc.refresh_driver import REST_S, TIMEOUT_S, RefreshDriver


class FakeRegistry:
    """Gives out what a test put down, once, and notes what it is told."""

    def __init__(self) -> None:
        self.due: list[str] = []
        self.done: list[tuple[str, bool | None, float]] = []
        self.drain: Drain | None = None
        self.error: Exception | None = None

    def due_refreshes(self, now_s: float) -> list[str]:
        if self.error is not None:
            raise self.error
        due, self.due = self.due, []
        return due

    def refresh_done(self, episode_id: str, found: bool | None, now_s: float) -> None:
        self.done.append((episode_id, found, now_s))
        if self.error is not None:
            raise self.error


class FakeEngine:
    """Touches at once, or never, or raises."""

    def __init__(self) -> None:
        self.found: dict[str, bool | None] = {}
        self.error: Exception | None = None
        self.hangs = False
        self.asked: list[str] = []
        self.cancelled: list[str] = []

    async def refresh(self, episode_id: str) -> bool | None:
        self.asked.append(episode_id)
        if self.error is not None:
            raise self.error
        if self.hangs:
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled.append(episode_id)
        return self.found.get(episode_id)


class Bench:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.registry = FakeRegistry()
        self.engine = FakeEngine()
        registry: EpisodeRegistry = self.registry  # type: ignore[assignment]
        self.driver = RefreshDriver(registry, self.engine.refresh, self.clock)

    async def tick(self, advance_s: float = 0.0) -> None:
        """One tick, and what follows from it."""
        self.clock.advance(advance_s)
        self.driver.tick()
        await settled()


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def run(scenario: Callable[[Bench], Awaitable[None]]) -> Bench:
    async def whole() -> Bench:
        bench = Bench()
        await scenario(bench)
        return bench

    return asyncio.run(whole())


def test_what_is_due_is_asked_of_the_engine_and_its_answer_told() -> None:
    async def scenario(bench: Bench) -> None:
        bench.engine.found = {"a": True, "b": False}
        bench.registry.due = ["a", "b", "c"]
        await bench.tick(advance_s=2.0)
        await bench.tick()

    bench = run(scenario)

    assert bench.engine.asked == ["a", "b", "c"]
    assert bench.registry.done == [("a", True, 2.0), ("b", False, 2.0), ("c", None, 2.0)]


def test_a_refresh_that_takes_too_long_is_given_up_and_done_once() -> None:
    async def scenario(bench: Bench) -> None:
        bench.engine.hangs = True
        bench.registry.due = ["a"]
        await bench.tick()
        await bench.tick(advance_s=TIMEOUT_S - 0.1)
        assert bench.registry.done == []
        await bench.tick(advance_s=0.1)
        await bench.tick(advance_s=TIMEOUT_S)

    bench = run(scenario)

    assert bench.engine.cancelled == ["a"]
    assert bench.registry.done == [("a", None, TIMEOUT_S)]


def test_an_engine_that_is_too_slow_for_a_refresh_is_left_alone_for_a_while() -> None:
    async def scenario(bench: Bench) -> None:
        bench.engine.hangs = True
        bench.registry.due = ["a"]
        await bench.tick()
        bench.registry.due = ["b"]
        await bench.tick(advance_s=TIMEOUT_S)
        await bench.tick(advance_s=REST_S - 0.1)
        assert bench.engine.asked == ["a"]
        await bench.tick(advance_s=0.1)

    assert run(scenario).engine.asked == ["a", "b"]


def test_a_fault_that_meets_every_refresh_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(bench: Bench) -> None:
        for error in ("broken", "broken", "something else"):
            bench.engine.error = RuntimeError(error)
            bench.registry.due = ["a"]
            await bench.tick(advance_s=1.0)

    run(scenario)

    assert caplog.text.count("could not be refreshed") == 2


def test_a_fault_of_the_engine_is_logged_and_ends_that_refresh_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(bench: Bench) -> None:
        bench.engine.error = RuntimeError("broken")
        bench.registry.due = ["a"]
        await bench.tick()
        bench.engine.error = None
        bench.engine.found = {"b": True}
        bench.registry.due = ["b"]
        await bench.tick()

    bench = run(scenario)

    assert "broken" in caplog.text
    assert [(name, found) for name, found, _ in bench.registry.done] == [("a", None), ("b", True)]


def test_a_fault_of_the_registry_is_logged_and_does_not_reach_the_ticker(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(bench: Bench) -> None:
        bench.registry.due = ["a"]
        bench.driver.tick()
        bench.registry.error = RuntimeError("broken policy")
        await settled()
        await bench.tick()
        assert [name for name, _, _ in bench.registry.done] == ["a"]
        bench.registry.error = None
        bench.registry.due = ["b"]
        await bench.tick()

    bench = run(scenario)

    assert bench.engine.asked == ["a", "b"]
    assert "a refresh is not counted" in caplog.text
    assert "could not be chosen" in caplog.text


def test_a_server_that_drains_begins_none_and_ends_those_it_began() -> None:
    async def scenario(bench: Bench) -> None:
        bench.engine.hangs = True
        bench.registry.due = ["a"]
        await bench.tick()
        bench.registry.drain = begin(0.0, 60.0, "test", None)
        bench.registry.due = ["b"]
        await bench.tick(advance_s=TIMEOUT_S)

    bench = run(scenario)

    assert bench.engine.asked == ["a"]
    assert [name for name, _, _ in bench.registry.done] == ["a"]


@pytest.mark.parametrize("has_begun", [True, False])
def test_a_stop_ends_all_once_also_those_whose_work_has_not_begun(has_begun: bool) -> None:
    async def scenario(bench: Bench) -> None:
        bench.engine.hangs = True
        bench.registry.due = ["a", "b"]
        bench.driver.tick()
        if has_begun:
            await settled()
        bench.driver.stop()
        await settled()
        bench.registry.due = ["c"]
        await bench.tick(advance_s=TIMEOUT_S)

    bench = run(scenario)

    assert bench.engine.cancelled == (["a", "b"] if has_begun else [])
    assert [(name, found) for name, found, _ in bench.registry.done] == [("a", None), ("b", None)]
