"""PolicyService: the Chunks stream.

Requests stay serialised: the front end reads the few fields it needs and hands the bytes on to the
worker, which decodes them where computing holds nobody up.
"""

from __future__ import annotations

import asyncio
import math
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from robot_sdk.api.v1 import policy_pb2
from robot_sdk.clock import Clock, to_ns
from robot_sdk.errors import (
    InvalidArgumentError,
    OutOfOrderError,
    RobotSdkError,
    to_detail,
)
from robot_sdk.telemetry import Telemetry, parent_from, spans
from robot_sdk.telemetry import attributes as attr
from server.core.batching import HIGHEST_CONTROL_HZ, LOWEST_CONTROL_HZ
from server.policy.checks import check_embodiment, check_keys
from server.policy.driver import Answer, AnswerQueue, ChunkStream, PolicyDriver
from server.rpc.calls import ActiveCall
from server.rpc.errors import not_a_number, translated
from server.rpc.hub import EpisodeHub, LiveEpisode
from server.rpc.services import Services

_MAX_INSTRUCTION_BYTES = 1 << 20


class _Stream:
    """One Chunks call after its ChunksOpen."""

    def __init__(self) -> None:
        self.answers = AnswerQueue()
        self.refusals: list[policy_pb2.ChunkFailed] = []
        self.news = asyncio.Event()
        self.num_open = 0
        self.half_closed = False
        self.fault: BaseException | None = None
        self.last_sequence: int | None = None

    def on_answer(self, answer: Answer) -> None:
        self.num_open -= 1
        self.answers.put(answer)
        self.news.set()

    def refuse(self, observation: policy_pb2.Observation, error: RobotSdkError) -> None:
        self.refusals = self.refusals[-15:] + [_refusal(observation, error)]
        self.news.set()

    @property
    def is_over(self) -> bool:
        """The client has closed its side and every observation has been answered."""
        return self.half_closed and self.num_open == 0 and not self.refusals


class PolicyServicer:
    """Translates between the stream and a policy driver.

    Args:
        telemetry: Gets one span per chunk; None records none. Describing a chunk takes longer than
            sending it, so this is not left to a telemetry that drops everything.
    """

    def __init__(
        self, hub: EpisodeHub, services: Services, clock: Clock, telemetry: Telemetry | None
    ) -> None:
        self._hub = hub
        self._services = services
        self._clock = clock
        self._telemetry = telemetry

    def register(self, server: grpc.aio.Server) -> None:
        """Add the service with requests left as bytes, which generated code cannot do."""
        handler: grpc.RpcMethodHandler[Any, Any] = grpc.stream_stream_rpc_method_handler(
            self.Chunks,
            request_deserializer=None,
            response_serializer=policy_pb2.ChunksResponse.SerializeToString,
        )
        server.add_generic_rpc_handlers(
            (
                grpc.method_handlers_generic_handler(
                    "robot_sdk.api.v1.PolicyService", {"Chunks": handler}
                ),
            )
        )

    @translated
    async def Chunks(
        self, request_iterator: Any, context: grpc.aio.ServicerContext[Any, Any]
    ) -> None:
        first = await context.read()
        if first is grpc.aio.EOF:
            return
        request = _parse(first)
        if request.WhichOneof("message") != "open":
            raise InvalidArgumentError(
                "the first message must be open",
                field="message",
                value=request.WhichOneof("message") or "nothing",
                allowed=("open",),
            )
        await context.send_initial_metadata(())  # see server.rpc.calls
        live, driver = self._open(request.open)
        stream = _Stream()
        chunks = driver.open_stream(
            request.open.instruction,
            request.open.noise_seed if request.open.HasField("noise_seed") else None,
            _control_hz(request.open, driver),
            stream.on_answer,
        )
        call = ActiveCall()
        live.calls.add(call)
        reader: asyncio.Task[None] | None = None
        try:
            with call.running():
                await context.write(
                    policy_pb2.ChunksResponse(
                        opened=policy_pb2.ChunksOpened(
                            spec=driver.wire_spec,
                            next_observation_in_s=chunks.first_observation_in_s,
                            server_sent_ns=to_ns(self._clock.now_s()),
                        )
                    )
                )
                reader = asyncio.get_running_loop().create_task(
                    self._read(context, stream, chunks, driver)
                )
                await self._write(context, stream, chunks, driver, live)
        finally:
            driver.close_stream(chunks)
            live.calls.discard(call)
            if reader is not None:
                reader.cancel()

    def _open(self, request: policy_pb2.ChunksOpen) -> tuple[LiveEpisode, PolicyDriver]:
        live = self._hub.authorise(request.episode)
        info = live.lease.info
        if request.policy not in info.policies:
            raise InvalidArgumentError(
                "the episode was opened without this policy",
                field="policy",
                value=request.policy,
                allowed=info.policies or ("none",),
            )
        size = len(request.instruction.encode())
        if size > _MAX_INSTRUCTION_BYTES:
            raise InvalidArgumentError(
                "the instruction is too long",
                field="instruction",
                value=f"{size} bytes",
                allowed=(f"at most {_MAX_INSTRUCTION_BYTES} bytes",),
            )
        driver = self._services.policies[request.policy]
        spec = driver.ready_spec()
        check_embodiment(spec, info.embodiment)
        check_keys(spec, request.observation_keys)
        return live, driver

    async def _read(
        self,
        context: grpc.aio.ServicerContext[Any, Any],
        stream: _Stream,
        chunks: ChunkStream,
        driver: PolicyDriver,
    ) -> None:
        try:
            while (raw := await context.read()) is not grpc.aio.EOF:
                received_s = self._clock.now_s()
                request = _parse(raw)
                if request.WhichOneof("message") != "observation":
                    raise InvalidArgumentError(
                        "a stream is opened once; after that come observations",
                        field="message",
                        value=request.WhichOneof("message") or "nothing",
                        allowed=("observation",),
                    )
                self._take(raw, request.observation, received_s, stream, chunks, driver)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            stream.fault = error
        stream.half_closed = True
        stream.news.set()

    def _take(
        self,
        raw: bytes,
        observation: policy_pb2.Observation,
        received_s: float,
        stream: _Stream,
        chunks: ChunkStream,
        driver: PolicyDriver,
    ) -> None:
        last = stream.last_sequence
        if last is not None and observation.sequence <= last:
            stream.refuse(
                observation,
                OutOfOrderError(
                    "sequences count up within a stream",
                    field="sequence",
                    value=observation.sequence,
                    allowed=(f"> {last}",),
                ),
            )
            return
        stream.last_sequence = observation.sequence
        if math.isnan(observation.deadline_s):
            stream.refuse(observation, not_a_number("deadline_s"))
            return
        stream.num_open += 1
        driver.submit(chunks, raw, observation, received_s)

    async def _write(
        self,
        context: grpc.aio.ServicerContext[Any, Any],
        stream: _Stream,
        chunks: ChunkStream,
        driver: PolicyDriver,
        live: LiveEpisode,
    ) -> None:
        while True:
            # Before looking: what comes while something is being written must be looked for again.
            stream.news.clear()
            while stream.refusals:
                await context.write(policy_pb2.ChunksResponse(failed=stream.refusals.pop(0)))
            while (answer := stream.answers.pop()) is not None:
                # Counted first: the robot may end the episode before this coroutine goes on.
                live.chunks_served += answer.chunk is not None
                await context.write(_response(answer, driver.next_observation_in_s(chunks)))
                self._record_span(answer, driver.name, live)
            if stream.fault is not None:
                raise stream.fault
            if stream.is_over:
                return
            await stream.news.wait()

    def _record_span(self, answer: Answer, policy: str, live: LiveEpisode) -> None:
        if self._telemetry is None:
            return
        error = None if answer.error is None else answer.error.message
        attributes = spans.chunk(
            sequence=answer.sequence,
            control_step=answer.control_step,
            policy=policy,
            timing=answer.timing,
            error=error,
        )
        attributes[attr.EPISODE_ID] = live.episode_id
        self._telemetry.record_span(
            attr.SPAN_SERVER_CHUNK,
            answer.received_s,
            answer.done_s,
            parent=parent_from(answer.trace),
            attributes=attributes,
            error=error,
        )


def _parse(raw: bytes) -> policy_pb2.ChunksRequest:
    try:
        return policy_pb2.ChunksRequest.FromString(raw)
    except DecodeError:
        raise InvalidArgumentError(
            "the message is not a ChunksRequest", field="message", value=f"{len(raw)} bytes"
        ) from None


def _control_hz(request: policy_pb2.ChunksOpen, driver: PolicyDriver) -> float:
    """The robot's rate; the policy's own for a client that names none."""
    rate_hz = request.control_hz
    if rate_hz == 0.0 and driver.spec is not None:
        rate_hz = driver.spec.control_hz
    if not LOWEST_CONTROL_HZ <= rate_hz <= HIGHEST_CONTROL_HZ:
        raise InvalidArgumentError(
            "control_hz is not a control rate",
            field="control_hz",
            value=rate_hz,
            allowed=(f"{LOWEST_CONTROL_HZ:g} to {HIGHEST_CONTROL_HZ:g}",),
        )
    return rate_hz


def _response(answer: Answer, next_observation_in_s: float | None) -> policy_pb2.ChunksResponse:
    if answer.error is not None:
        return policy_pb2.ChunksResponse(
            failed=policy_pb2.ChunkFailed(
                sequence=answer.sequence, control_step=answer.control_step, error=answer.error
            )
        )
    return policy_pb2.ChunksResponse(
        chunk=policy_pb2.ActionChunk(
            sequence=answer.sequence,
            control_step=answer.control_step,
            actions=answer.chunk,
            timing=answer.timing,
            next_observation_in_s=next_observation_in_s,
        )
    )


def _refusal(observation: policy_pb2.Observation, error: RobotSdkError) -> policy_pb2.ChunkFailed:
    return policy_pb2.ChunkFailed(
        sequence=observation.sequence,
        control_step=observation.control_step,
        error=to_detail(error),
    )
