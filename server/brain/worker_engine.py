"""The BrainEngine over a planner in a worker process."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace
from typing import Any

from robot_sdk.api.v1 import common_pb2
from robot_sdk.clock import Clock
from robot_sdk.errors import RobotSdkError, WorkerUnavailableError, from_detail
from server.brain.codec import encode_turn, event_from_json
from server.brain.interface import EngineInfo, Event, Finished, Turn
from server.brain.turn_events import TurnEvents
from server.worker.framing import Frame
from server.worker.supervisor import Supervisor, WorkerState


class _Running:
    """One turn between `decide` and the end of its work."""

    def __init__(self, turn: Turn, arrived_s: float, max_output_bytes: int) -> None:
        self.turn = turn
        self.arrived_s = arrived_s
        self.started_s: float | None = None
        self.events = TurnEvents(max_output_bytes)


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
    def problem(self) -> str:
        return self._supervisor.problem

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

    async def refresh(self, episode_id: str) -> None:
        """A planner has no cache."""

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
        running = _Running(turn, self._clock.now_s(), self._max_output_bytes)
        self._waiting[number] = running
        self._pump()
        try:
            async for event in running.events:
                yield self._timed(event, running) if isinstance(event, Finished) else event
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
            running.events.put(event_from_json(frame.header["event"]))
            return
        del self._running[number]
        error = None
        if frame.body:
            error = from_detail(common_pb2.ErrorDetail.FromString(frame.body))
        running.events.end(error)
        self._pump()

    def _lost(self) -> None:
        lost = [*self._running.values(), *self._waiting.values()]
        self._running.clear()
        self._waiting.clear()
        for running in lost:
            running.events.end(self._unavailable())

    def _unavailable(self) -> RobotSdkError:
        return WorkerUnavailableError(
            f"the brain is not ready: {self.problem}",
            retry_after_s=self._supervisor.retry_after_s,
        )
