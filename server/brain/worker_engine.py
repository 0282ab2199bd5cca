"""The BrainEngine over a planner in a worker process."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from robot_sdk.api.v1 import common_pb2
from robot_sdk.clock import Clock
from robot_sdk.errors import (
    BadModelOutputError,
    RobotSdkError,
    WorkerUnavailableError,
    from_detail,
)
from server.brain.checks import event_bytes
from server.brain.codec import encode_turn, event_from_json
from server.brain.interface import EngineInfo, Event, Finished, Reasoning, Text, Turn
from server.worker.framing import Frame
from server.worker.supervisor import Supervisor, WorkerState


@dataclass
class _Running:
    """One turn between `decide` and the end of its work.

    Events that nobody has taken yet are merged, text to text, so that a slow reader costs the
    length of the text and not a record per token.
    """

    turn: Turn
    arrived_s: float
    events: deque[Event] = field(default_factory=deque)
    news: asyncio.Event = field(default_factory=asyncio.Event)
    ended: bool = False
    error: RobotSdkError | None = None
    started_s: float | None = None
    output_bytes: int = 0

    def put(self, event: Event) -> None:
        last = self.events[-1] if self.events else None
        if isinstance(event, (Text, Reasoning)) and type(last) is type(event):
            self.events[-1] = type(event)(last.text + event.text)
        else:
            self.events.append(event)
        self.news.set()

    def end(self, error: RobotSdkError | None) -> None:
        self.ended = True
        self.error = error
        self.news.set()


class WorkerEngine:
    """See the module.

    Args:
        load: `load` frame for the worker: factory, options, delay_s.
        max_running: Turns in the worker at once; others wait in order of arrival.
        max_output_bytes: A turn that writes more is cancelled.
    """

    def __init__(
        self,
        load: Mapping[str, Any],
        *,
        max_running: int,
        max_output_bytes: int,
        clock: Clock,
    ) -> None:
        self.info = EngineInfo(engine="loading", model="")
        self._delay_s: float = load["delay_s"]
        self._max_running = max_running
        self._max_output_bytes = max_output_bytes
        self._clock = clock
        self._waiting: OrderedDict[int, _Running] = OrderedDict()
        self._running: dict[int, _Running] = {}
        self._num_turns = 0
        self._supervisor = Supervisor(
            "brain",
            "server.brain.worker_main",
            dict(load),
            clock=clock,
            on_ready=self._ready,
            on_frame=self._received,
            on_lost=self._lost,
        )

    @property
    def is_ready(self) -> bool:
        return self._supervisor.state is WorkerState.READY

    @property
    def num_running(self) -> int:
        return len(self._running)

    @property
    def num_waiting(self) -> int:
        return len(self._waiting)

    @property
    def load(self) -> None:
        """A planner has no pool and says nothing."""

    def commit(self, episode_id: str, turn_index: int) -> None:
        """Nothing to do: a planner gets the whole conversation at every turn."""

    def end_episode(self, episode_id: str) -> None:
        """Nothing to do: a planner keeps nothing."""

    @property
    def worker_pid(self) -> int | None:
        return self._supervisor.pid

    async def start(self) -> None:
        await self._supervisor.start()

    async def loaded(self) -> None:
        await self._supervisor.loaded()

    async def stop(self) -> None:
        await self._supervisor.stop()
        self._lost()

    async def decide(self, turn: Turn) -> AsyncGenerator[Event, None]:
        if not self.is_ready:
            raise self._unavailable()
        self._num_turns += 1
        number = self._num_turns
        running = _Running(turn, self._clock.now_s())
        self._waiting[number] = running
        self._pump()
        try:
            while True:
                while running.events:
                    event = running.events.popleft()
                    yield self._timed(event, running) if isinstance(event, Finished) else event
                if running.ended:
                    if running.error is not None:
                        raise running.error
                    return
                running.news.clear()
                await running.news.wait()
        finally:
            self._give_up(number)

    def _timed(self, event: Finished, running: _Running) -> Finished:
        queue_s = (running.started_s or running.arrived_s) - running.arrived_s
        return replace(
            event,
            timing=replace(event.timing, queue_s=queue_s, modelled_delay_s=self._delay_s or None),
        )

    def _give_up(self, number: int) -> None:
        """Stop caring about a turn. One in the worker keeps its slot until the worker says end."""
        self._waiting.pop(number, None)
        if number in self._running:
            self._supervisor.send({"op": "cancel", "turn": number})

    def _pump(self) -> None:
        while self._waiting and len(self._running) < self._max_running and self.is_ready:
            number, running = self._waiting.popitem(last=False)
            running.started_s = self._clock.now_s()
            self._running[number] = running
            self._supervisor.send({"op": "turn", "turn": number}, encode_turn(running.turn))

    def _ready(self, frame: Frame) -> None:
        self.info = EngineInfo(**frame.header["info"])
        self._pump()

    def _received(self, frame: Frame) -> None:
        number = frame.header["turn"]
        running = self._running.get(number)
        if running is None:
            return
        if frame.header["op"] == "event":
            event = event_from_json(frame.header["event"])
            running.output_bytes += event_bytes(event)
            if running.output_bytes > self._max_output_bytes:
                running.end(
                    BadModelOutputError(
                        "the brain wrote more than brain.max_output_bytes in one turn",
                        value=running.output_bytes,
                        allowed=(f"<= {self._max_output_bytes}",),
                    )
                )
                return
            running.put(event)
            return
        del self._running[number]
        error = None
        if frame.body:
            error = from_detail(common_pb2.ErrorDetail.FromString(frame.body))
        running.end(error)
        self._pump()

    def _lost(self) -> None:
        lost = [*self._running.values(), *self._waiting.values()]
        self._running.clear()
        self._waiting.clear()
        for running in lost:
            running.end(self._unavailable())

    def _unavailable(self) -> RobotSdkError:
        return WorkerUnavailableError(
            f"the brain is {self._supervisor.state.value}",
            retry_after_s=self._supervisor.retry_after_s,
        )
