"""One policy as the front end sees it: streams, a batcher, and its worker processes.

Everything happens in callbacks on the event loop, so that an observation goes from its RPC to a
free worker without a task switch. Nothing here computes; observations are copied once into the
worker's arena and answers once out of its socket.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from robot_sdk.api.v1 import common_pb2, policy_pb2
from robot_sdk.clock import Clock, to_ns
from robot_sdk.errors import (
    BadModelOutputError,
    CancelledByServerError,
    DeadlineExceededError,
    OverloadedError,
    RobotSdkError,
    WorkerUnavailableError,
    to_detail,
)
from robot_sdk.spec import PolicySpec
from robot_sdk.spec_codec import decode_spec
from server.core.batching import Batcher, Refused, StreamRate, TierStatus, Waiting
from server.worker.arena import Arena
from server.worker.framing import Frame
from server.worker.supervisor import Supervisor, WorkerState

_log = logging.getLogger(__name__)

#: When a robot that the tier cannot carry may ask again: others come and go within seconds.
_REFUSED_RETRY_S = 2.0
#: Age up to which a status is good enough. Making one takes milliseconds (which rate would still
#: fit is searched for), and what the event loop spends on it is late for every robot.
_STATUS_MAX_AGE_S = 1.0
_STATUS_INTERVAL_S = 10.0


@dataclass(frozen=True)
class Answer:
    """What became of one observation: `chunk` or `error` is set.

    Attributes:
        received_s, done_s: Server's monotonic clock.
        trace: Context that came with the observation.
    """

    sequence: int
    control_step: int
    chunk: common_pb2.Tensor | None
    error: common_pb2.ErrorDetail | None
    timing: policy_pb2.PolicyTiming
    received_s: float
    done_s: float
    trace: common_pb2.TraceContext


@dataclass(frozen=True)
class ChunkStream:
    """One open stream. `on_answer` is called on the event loop, never after `close_stream`.

    Attributes:
        first_observation_in_s: When the tier would like the first observation, from the opening.
            None: any time.
    """

    number: int
    instruction: str
    noise_seed: int | None
    on_answer: Callable[[Answer], None]
    first_observation_in_s: float | None = None


@dataclass(frozen=True)
class _Request:
    stream: ChunkStream
    raw: bytes
    sequence: int
    control_step: int
    received_s: float
    trace: common_pb2.TraceContext


@dataclass(frozen=True)
class _Result:
    """What a worker made of one request: `chunk` or `error` is set."""

    timing: policy_pb2.PolicyTiming
    chunk: common_pb2.Tensor | None = None
    error: common_pb2.ErrorDetail | None = None


@dataclass
class _Worker:
    supervisor: Supervisor
    arena: Arena
    running: tuple[_Request, ...] = ()
    started_s: float = 0.0
    is_overdue: bool = False

    @property
    def is_free(self) -> bool:
        # One that is being killed answers a last time at most; a new batch would die with it.
        is_ready = self.supervisor.state is WorkerState.READY
        return is_ready and not self.running and not self.is_overdue


@dataclass
class Totals:
    """Since the server started.

    Attributes:
        chunks: Observations that got one.
        failed: Observations that got an error, expired ones included.
        expired: Observations given up because their deadline had passed.
        superseded: Observations replaced by a newer one of their stream.
        batches: Batches that a worker finished.
        refused_streams: Streams that the tier could not carry.
    """

    chunks: int = 0
    failed: int = 0
    expired: int = 0
    superseded: int = 0
    batches: int = 0
    refused_streams: int = 0


class PolicyDriver:
    """See the module.

    Args:
        name: What robots ask for.
        load: `load` frame for the workers: name, factory, options, added_latency_s.
        batcher: Decides what a free worker takes.
        max_batch: Largest batch the batcher makes; sizes the arena.
        max_message_bytes: Largest request; sizes the arena.
        infer_timeout_s: A worker that takes longer for a batch is killed and started again.
        default_deadline_s: Deadline of observations that name none; None: they have none.
        devices: Values of CUDA_VISIBLE_DEVICES, for one worker after the other in turn. Empty: the
            workers see what this process sees.
        on_chunk: Called with the service time of every chunk, seconds; for metrics.
    """

    def __init__(
        self,
        name: str,
        load: Mapping[str, Any],
        *,
        batcher: Batcher[_Request],
        num_workers: int,
        max_batch: int,
        max_message_bytes: int,
        infer_timeout_s: float,
        clock: Clock,
        default_deadline_s: float | None = None,
        devices: Sequence[str] = (),
        on_chunk: Callable[[float], None] = lambda _: None,
    ) -> None:
        self.name = name
        self.spec: PolicySpec | None = None
        self.wire_spec: policy_pb2.PolicySpec | None = None
        self.totals = Totals()
        self._load = dict(load)
        self._batcher = batcher
        self._num_workers = num_workers
        self._arena_bytes = max_batch * max_message_bytes
        self._infer_timeout_s = infer_timeout_s
        self._clock = clock
        self._default_deadline_s = default_deadline_s
        self._devices = tuple(devices)
        self._on_chunk = on_chunk
        self._wake: asyncio.TimerHandle | None = None
        self._tier_s = clock.now_s()
        self._tier = batcher.status(self._tier_s)
        self._workers: list[_Worker] = []
        self._streams: dict[int, ChunkStream] = {}
        self._num_streams = 0
        self._stopping = False

    @property
    def num_workers(self) -> int:
        return self._num_workers

    @property
    def num_ready(self) -> int:
        return sum(w.supervisor.state is WorkerState.READY for w in self._workers)

    @property
    def num_running(self) -> int:
        """Observations in a worker, including those whose stream has gone."""
        return sum(len(w.running) for w in self._workers)

    @property
    def num_streams(self) -> int:
        """Open streams."""
        return len(self._streams)

    @property
    def num_waiting(self) -> int:
        return len(self._batcher)

    @property
    def worker_pids(self) -> list[int]:
        return [w.supervisor.pid for w in self._workers if w.supervisor.pid is not None]

    async def start(self) -> None:
        """Start the workers; returns before they have loaded."""
        for index in range(self._num_workers):
            descriptor = Arena.create(self._arena_bytes)
            self._workers.append(
                _Worker(self._supervisor(index, descriptor), Arena(descriptor, self._arena_bytes))
            )
        for worker in self._workers:
            await worker.supervisor.start()

    async def loaded(self) -> None:
        """Wait until every worker is ready. Raises RuntimeError if one cannot load."""
        for worker in self._workers:
            await worker.supervisor.loaded()

    async def stop(self) -> None:
        """End the workers; what waits or runs fails with CANCELLED."""
        self._stopping = True
        self._sleep()
        for stream in list(self._streams.values()):
            waiting = self._batcher.withdraw(stream.number)
            if waiting is not None:
                self._fail(waiting.payload, CancelledByServerError("the server is stopping"))
        for worker in self._workers:
            await worker.supervisor.stop()

    def ready_spec(self) -> PolicySpec:
        """The spec, for a new stream.

        Raises:
            WorkerUnavailableError: Still loading, or every worker is down.
        """
        if self.spec is None or self.num_ready == 0:
            state = "loading" if self.spec is None else "being restarted"
            raise WorkerUnavailableError(
                f"policy {self.name} is {state}",
                field="policy",
                value=self.name,
                retry_after_s=self._retry_after_s(),
            )
        return self.spec

    def open_stream(
        self,
        instruction: str,
        noise_seed: int | None,
        control_hz: float,
        on_answer: Callable[[Answer], None],
    ) -> ChunkStream:
        """A robot that executes rows at `control_hz` (above 0) wants chunks.

        Raises:
            WorkerUnavailableError: As `ready_spec`.
            OverloadedError: The tier cannot carry one more at this rate; names one that would fit.
        """
        spec = self.ready_spec()
        rate = StreamRate(control_hz, spec.executed_steps, spec.horizon)
        number = self._num_streams + 1
        verdict = self._batcher.open_stream(number, rate, self._clock.now_s())
        if isinstance(verdict, Refused):
            self.totals.refused_streams += 1
            raise _refusal(self.name, control_hz, verdict)
        if verdict.too_slow is not None:
            _log.warning(
                "policy %s is too slow even for one robot: %s", self.name, verdict.too_slow.reason
            )
        self._num_streams = number
        first_in_s = verdict.next_observation_in_s
        stream = ChunkStream(number, instruction, noise_seed, on_answer, first_in_s)
        self._streams[number] = stream
        return stream

    def close_stream(self, stream: ChunkStream) -> None:
        """Drop what the stream has waiting. What runs runs on, and its answer is dropped."""
        self._streams.pop(stream.number, None)
        self._batcher.close_stream(stream.number)
        # Those that waited for it in a batch need not any more.
        self._pump()

    def submit(
        self,
        stream: ChunkStream,
        raw: bytes,
        observation: policy_pb2.Observation,
        received_s: float,
    ) -> None:
        """Take an observation. `raw` is the serialised ChunksRequest it came in."""
        request = _Request(
            stream,
            raw,
            observation.sequence,
            observation.control_step,
            received_s,
            observation.trace,
        )
        if self.num_ready == 0:
            self._fail(request, self._unavailable())
            return
        deadline_s = self._default_deadline_s
        if observation.HasField("deadline_s"):
            deadline_s = observation.deadline_s
        replaced = self._batcher.add(
            Waiting(
                stream.number,
                request.sequence,
                received_s,
                None if deadline_s is None else received_s + deadline_s,
                request,
                observation.control_step,
                observation.buffered_steps,
            )
        )
        if replaced is not None:
            self.totals.superseded += 1
            self._fail(
                replaced.payload,
                CancelledByServerError("a newer observation of this stream replaced this one"),
                count=False,
            )
        self._pump()

    def step(self) -> None:
        """Do what is due now: give up late observations, end workers that hang."""
        now_s = self._clock.now_s()
        for late in self._batcher.expire(now_s):
            self._fail_late(late)
        self._refresh_status(now_s, _STATUS_INTERVAL_S)
        for worker in self._workers:
            is_overdue = worker.running and now_s - worker.started_s > self._infer_timeout_s
            if is_overdue and not worker.is_overdue:
                worker.is_overdue = True
                _log.error(
                    "%s has worked on %d observations for more than %.1f s "
                    "(policies.%s.infer_timeout_s) and is killed",
                    worker.supervisor.name,
                    len(worker.running),
                    self._infer_timeout_s,
                    self.name,
                )
                worker.supervisor.kill()

    def next_observation_in_s(self, stream: ChunkStream) -> float | None:
        """When this stream should ask again, from this moment. Ask when a chunk is sent."""
        return self._batcher.next_observation_in_s(stream.number, self._clock.now_s())

    def tier_status(self) -> TierStatus:
        """How the tier stands, or stood within the last second. On the event loop only."""
        self._refresh_status(self._clock.now_s(), _STATUS_MAX_AGE_S)
        return self._tier

    @property
    def last_tier_status(self) -> TierStatus:
        """How the tier stood within the last ten seconds. Any thread."""
        return self._tier

    def _refresh_status(self, now_s: float, max_age_s: float) -> None:
        if now_s - self._tier_s >= max_age_s:
            self._tier_s = now_s
            self._tier = self._batcher.status(now_s)

    def _supervisor(self, index: int, descriptor: int) -> Supervisor:
        return Supervisor(
            f"policy {self.name}/{index}",
            "server.policy.worker_main",
            self._load,
            clock=self._clock,
            on_ready=lambda frame: self._ready(index, frame),
            on_frame=lambda frame: self._finished(index, frame),
            on_lost=lambda: self._lost(index),
            arguments=(str(descriptor), str(self._arena_bytes)),
            pass_descriptors=(descriptor,),
            environment=self._environment(index),
        )

    def _environment(self, index: int) -> dict[str, str]:
        if not self._devices:
            return {}
        return {"CUDA_VISIBLE_DEVICES": self._devices[index % len(self._devices)]}

    def _ready(self, index: int, frame: Frame) -> None:
        if self.wire_spec is None:
            self.wire_spec = policy_pb2.PolicySpec.FromString(frame.body)
            self.spec = decode_spec(self.wire_spec)
        self._batcher.on_ready(index, self._clock.now_s())
        self._pump()

    def _pump(self) -> None:
        """Give every free worker what the batcher has for it, and wake up when it says."""
        self._sleep()
        if self._stopping:
            return
        wake_at_s: float | None = None
        for index, worker in enumerate(self._workers):
            if not worker.is_free or not len(self._batcher):
                continue
            now_s = self._clock.now_s()
            batch = self._batcher.take(now_s, index)
            for late in batch.expired:
                self._fail_late(late)
            if batch.items:
                self._send(worker, tuple(item.payload for item in batch.items), now_s)
            elif batch.wake_at_s is not None:
                wake_at_s = (
                    batch.wake_at_s if wake_at_s is None else min(wake_at_s, batch.wake_at_s)
                )
        if wake_at_s is not None:
            delay_s = max(0.0, wake_at_s - self._clock.now_s())
            self._wake = asyncio.get_running_loop().call_later(delay_s, self._pump)

    def _sleep(self) -> None:
        """Forget the time to wake up."""
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None

    def _send(self, worker: _Worker, requests: tuple[_Request, ...], now_s: float) -> None:
        worker.arena.reset()
        items = []
        for request in requests:
            offset, length = worker.arena.write(request.raw)
            items.append(
                {
                    "offset": offset,
                    "length": length,
                    "instruction": request.stream.instruction,
                    "noise_seed": request.stream.noise_seed,
                }
            )
        worker.running = requests
        worker.started_s = now_s
        worker.supervisor.send({"op": "infer", "items": items})

    def _finished(self, index: int, frame: Frame) -> None:
        worker = self._workers[index]
        requests, worker.running = worker.running, ()
        if not requests:
            _log.error("%s sent a frame that nobody waits for", worker.supervisor.name)
            return
        started_s, finished_s = worker.started_s, self._clock.now_s()
        self._batcher.on_finished(index, len(requests), finished_s - started_s, finished_s)
        self.totals.batches += 1
        # The next batch goes out before the answers are written: the worker is what is scarce.
        self._pump()
        try:
            results = _read_results(frame, requests, started_s, index)
        except Exception:
            # Whatever is wrong with it: no robot may wait for an answer that never comes.
            _log.exception("%s sent an answer that cannot be read", worker.supervisor.name)
            for request in requests:
                self._fail(
                    request,
                    BadModelOutputError(
                        f"the answer of the worker of policy {self.name} cannot be read; "
                        "the server's log says why"
                    ),
                )
            return
        for request, result in zip(requests, results, strict=True):
            if result.error is not None:
                self.totals.failed += 1
            else:
                self.totals.chunks += 1
                self._on_chunk(self._clock.now_s() - request.received_s)
            self._deliver(request, result.timing, result.chunk, result.error)

    def _lost(self, index: int) -> None:
        worker = self._workers[index]
        requests, worker.running = worker.running, ()
        worker.is_overdue = False
        self._batcher.on_lost(index, self._clock.now_s())
        for request in requests:
            self._fail(request, self._unavailable())
        if self.num_ready:
            self._pump()
            return
        for stream in list(self._streams.values()):
            waiting = self._batcher.withdraw(stream.number)
            if waiting is not None:
                self._fail(waiting.payload, self._unavailable())

    def _unavailable(self) -> RobotSdkError:
        return WorkerUnavailableError(
            f"the worker of policy {self.name} died and is being restarted",
            field="policy",
            value=self.name,
            retry_after_s=self._retry_after_s(),
        )

    def _retry_after_s(self) -> float:
        return min((w.supervisor.retry_after_s for w in self._workers), default=1.0)

    def _fail_late(self, late: Waiting[_Request]) -> None:
        self.totals.expired += 1
        self._fail(
            late.payload,
            DeadlineExceededError(
                "the deadline of the observation passed before a worker was free"
            ),
        )

    def _fail(self, request: _Request, error: RobotSdkError, count: bool = True) -> None:
        if count:
            self.totals.failed += 1
        self._deliver(request, policy_pb2.PolicyTiming(), error=to_detail(error))

    def _deliver(
        self,
        request: _Request,
        timing: policy_pb2.PolicyTiming,
        chunk: common_pb2.Tensor | None = None,
        error: common_pb2.ErrorDetail | None = None,
    ) -> None:
        if request.stream.number not in self._streams:
            return
        done_s = self._clock.now_s()
        timing.server_received_ns = to_ns(request.received_s)
        timing.server_done_ns = to_ns(done_s)
        request.stream.on_answer(
            Answer(
                request.sequence,
                request.control_step,
                chunk,
                error,
                timing,
                request.received_s,
                done_s,
                request.trace,
            )
        )


def _read_results(
    frame: Frame, requests: Sequence[_Request], started_s: float, worker: int
) -> list[_Result]:
    """What a worker's frame says of each request.

    Raises:
        Exception: Of any kind, if it is not an answer to so many requests.
    """
    results = []
    offset = 0
    for request, fields in zip(requests, frame.header["answers"], strict=True):
        body = frame.body[offset : offset + fields["length"]]
        offset += fields["length"]
        timing = policy_pb2.PolicyTiming(
            batch_wait_s=started_s - request.received_s,
            preprocess_s=fields["preprocess_s"],
            vision_s=fields["vision_s"],
            prefill_s=fields["prefill_s"],
            denoise_s=fields["denoise_s"],
            infer_s=frame.header["infer_s"],
            batch_size=len(requests),
            modelled_delay_s=frame.header["modelled_delay_s"],
            worker=str(worker),
        )
        if fields["failed"]:
            results.append(_Result(timing, error=common_pb2.ErrorDetail.FromString(body)))
        else:
            results.append(_Result(timing, chunk=common_pb2.Tensor.FromString(body)))
    if offset != len(frame.body):
        raise ValueError(f"the body has {len(frame.body)} bytes; its header speaks of {offset}")
    return results


def _refusal(policy: str, control_hz: float, verdict: Refused) -> OverloadedError:
    rate_hz = verdict.sustainable_control_hz
    return OverloadedError(
        f"policy {policy} cannot carry one more robot at this rate: {verdict.reason}",
        field="control_hz",
        value=control_hz,
        allowed=("none at present",) if rate_hz is None else (f"at most {rate_hz:.3g} Hz",),
        retry_after_s=_REFUSED_RETRY_S,
    )


class AnswerQueue:
    """Answers of one stream that its client has not read yet; bounded.

    A client that stops reading loses the oldest first, since the newest chunk is the one that is of
    use, and since superseded observations are no news to it.
    """

    def __init__(self, max_answers: int = 16) -> None:
        self._answers: deque[Answer] = deque(maxlen=max_answers)

    def put(self, answer: Answer) -> None:
        self._answers.append(answer)

    def pop(self) -> Answer | None:
        """The oldest answer, None if there is none."""
        return self._answers.popleft() if self._answers else None
