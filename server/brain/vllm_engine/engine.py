"""The front end's side: a BrainEngine over the process that hosts vLLM.

Only what is new crosses to that process: a turn's new messages, and each picture once. The process
keeps the conversation in tokens. If it dies, those are gone, and episodes that had any end.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from robot_sdk.api.v1 import common_pb2
from robot_sdk.clock import Clock
from robot_sdk.errors import (
    EpisodeLostError,
    RobotSdkError,
    WorkerUnavailableError,
    from_detail,
)
from server.brain.codec import event_from_json
from server.brain.interface import EngineInfo, EngineLoad, Event, Turn
from server.brain.turn_events import TurnEvents
from server.brain.vllm_engine.turn_frame import encode_turn
from server.worker.framing import Frame
from server.worker.supervisor import Supervisor, WorkerState

ENGINE_NAME = "vllm"


@dataclass
class _Episode:
    """What the worker has of an episode."""

    committed_turns: int = 0
    image_ids: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class _Running:
    """One turn from `decide` to the moment the worker says that its work has stopped."""

    episode_id: str
    events: TurnEvents


class VllmEngine:
    """See the module.

    Attributes:
        on_episodes_lost: Called with the ids of episodes whose conversation is gone for good.

    Args:
        load: `load` frame for the worker, see `server.brain.vllm_engine.settings`.
        max_output_bytes: A turn that writes more is cancelled.
    """

    def __init__(self, load: Mapping[str, Any], *, max_output_bytes: int, clock: Clock) -> None:
        self.info = EngineInfo(
            engine=ENGINE_NAME, model=load["model_name"], reports_cached_tokens=True
        )
        self.on_episodes_lost: Callable[[Collection[str]], None] = lambda _: None
        self._max_output_bytes = max_output_bytes
        self._load: EngineLoad | None = None
        self._running: dict[int, _Running] = {}
        self._episodes: dict[str, _Episode] = {}
        self._lost_episodes: set[str] = set()
        self._num_turns = 0
        self._refreshes: dict[int, asyncio.Future[bool | None]] = {}
        self._num_refreshes = 0
        self._supervisor = Supervisor(
            "brain",
            "server.brain.vllm_engine.worker_main",
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
        return len(self._running) - self.num_waiting

    @property
    def num_waiting(self) -> int:
        """Turns that vLLM had not started on when it last said."""
        waiting = None if self._load is None else self._load.requests_waiting
        return min(waiting or 0, len(self._running))

    @property
    def load(self) -> EngineLoad | None:
        return self._load

    @property
    def worker_pid(self) -> int | None:
        return self._supervisor.pid

    async def start(self) -> None:
        await self._supervisor.start()

    async def loaded(self) -> None:
        await self._supervisor.loaded()

    async def stop(self) -> None:
        await self._supervisor.stop()
        self._end_all()

    async def decide(self, turn: Turn) -> AsyncGenerator[Event, None]:
        if turn.episode_id in self._lost_episodes:
            raise _lost_error(turn.episode_id)
        if not self.is_ready:
            raise self._unavailable()
        self._num_turns += 1
        number = self._num_turns
        running = _Running(turn.episode_id, TurnEvents(self._max_output_bytes))
        self._running[number] = running
        episode = self._episodes.setdefault(turn.episode_id, _Episode())
        header, body = encode_turn(turn, known_images=episode.image_ids)
        episode.image_ids.update(turn.images)
        self._supervisor.send({"op": "turn", "turn": number, **header}, body)
        try:
            async for event in running.events:
                yield event
        finally:
            if number in self._running:
                self._supervisor.send({"op": "cancel", "turn": number})

    def commit(self, episode_id: str, turn_index: int) -> None:
        episode = self._episodes.get(episode_id)
        if episode is not None:
            episode.committed_turns += 1
            self._supervisor.send({"op": "commit", "episode": episode_id, "turn_index": turn_index})

    async def refresh(self, episode_id: str) -> bool | None:
        if not self.is_ready or episode_id not in self._episodes:
            return None
        self._num_refreshes += 1
        number = self._num_refreshes
        found: asyncio.Future[bool | None] = asyncio.get_running_loop().create_future()
        self._refreshes[number] = found
        self._supervisor.send({"op": "refresh", "refresh": number, "episode": episode_id})
        try:
            return await found
        finally:
            if self._refreshes.pop(number, None) is not None:
                self._supervisor.send({"op": "cancel_refresh", "refresh": number})

    def end_episode(self, episode_id: str) -> None:
        self._lost_episodes.discard(episode_id)
        if self._episodes.pop(episode_id, None) is not None:
            self._supervisor.send({"op": "end_episode", "episode": episode_id})

    def _ready(self, frame: Frame) -> None:
        self.info = EngineInfo(**frame.header["info"])

    def _received(self, frame: Frame) -> None:
        operation = frame.header["op"]
        if operation == "load":
            self._load = EngineLoad(**frame.header["load"])
            return
        if operation == "refreshed":
            self._end_refresh(frame.header["refresh"], frame.header["found"])
            return
        number = frame.header["turn"]
        running = self._running.get(number)
        if running is None:
            return
        if operation == "event":
            running.events.put(event_from_json(frame.header["event"]))
            return
        del self._running[number]
        error = None
        if frame.body:
            error = from_detail(common_pb2.ErrorDetail.FromString(frame.body))
        running.events.end(error)

    def _lost(self) -> None:
        lost = {name for name, episode in self._episodes.items() if episode.committed_turns}
        self._lost_episodes |= lost
        self._episodes.clear()
        self._load = None
        self._end_all()
        self.on_episodes_lost(lost)

    def _end_refresh(self, number: int, found: bool | None) -> None:
        waiting = self._refreshes.pop(number, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(found)

    def _end_all(self) -> None:
        for number in list(self._refreshes):
            self._end_refresh(number, None)
        for running in self._running.values():
            is_lost = running.episode_id in self._lost_episodes
            running.events.end(_lost_error(running.episode_id) if is_lost else self._unavailable())
        self._running.clear()

    def _unavailable(self) -> RobotSdkError:
        return WorkerUnavailableError(
            f"the brain is not ready: {self.problem}",
            retry_after_s=self._supervisor.retry_after_s,
        )


def _lost_error(episode_id: str) -> RobotSdkError:
    return EpisodeLostError(
        "the process that hosts the model has died, and the episode's conversation with it",
        field="episode_id",
        value=episode_id,
        hint="start a new episode",
    )
