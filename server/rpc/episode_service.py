"""EpisodeService: the Run stream."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc

from robot_sdk.api.v1 import episode_pb2, episode_pb2_grpc
from robot_sdk.clock import Clock, to_ns
from robot_sdk.errors import InvalidArgumentError, UnsupportedError
from server.core.leases import Attachment, EpisodeInfo
from server.policy.checks import check_embodiment
from server.rpc.auth import Authenticator
from server.rpc.errors import translated
from server.rpc.hub import EpisodeHub
from server.rpc.mailbox import Mailbox
from server.rpc.malformed import well_formed
from server.rpc.services import Services

_MAX_ID_BYTES = 256
_MAX_LABELS = 32
_MAX_LABEL_KEY_BYTES = 64
#: Of a label's value, and of the names of robot, embodiment, run and family.
_MAX_NAME_BYTES = 1 << 16
_MAX_TASK_BYTES = 1 << 20


class EpisodeServicer(episode_pb2_grpc.EpisodeServiceServicer):
    """Translates between the stream and the hub."""

    def __init__(
        self, hub: EpisodeHub, services: Services, authenticator: Authenticator, clock: Clock
    ) -> None:
        self._hub = hub
        self._services = services
        self._authenticator = authenticator
        self._clock = clock

    @translated
    async def Run(self, request_iterator: Any, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        first = well_formed(await context.read())
        if first is grpc.aio.EOF:
            raise InvalidArgumentError("the first message must be open or resume", field="message")
        kind = first.WhichOneof("message")
        if kind == "open":
            identity = self._authenticator.identify(context.invocation_metadata() or ())
            info = self._info(first.open, identity.tenant)
            _, attachment, mailbox = self._hub.open(info, first.open.trace)
        elif kind == "resume":
            _, attachment, mailbox = self._hub.resume(first.resume.episode)
        else:
            raise InvalidArgumentError(
                "the first message must be open or resume",
                field="message",
                value=kind or "nothing",
                allowed=("open", "resume"),
            )
        reader = asyncio.get_running_loop().create_task(self._read(context, attachment, mailbox))
        try:
            while (message := await mailbox.next()) is not None:
                await context.write(message)
        finally:
            reader.cancel()
            self._hub.detach(attachment)

    async def _read(
        self,
        context: grpc.aio.ServicerContext[Any, Any],
        attachment: Attachment,
        mailbox: Mailbox,
    ) -> None:
        """Take in what the client says until it closes its side; faults end the stream."""
        try:
            while (request := well_formed(await context.read())) is not grpc.aio.EOF:
                kind = request.WhichOneof("message")
                if kind == "heartbeat":
                    self._heartbeat(request.heartbeat, attachment, mailbox)
                elif kind == "end":
                    self._hub.end_by_robot(attachment, request.end)
                else:
                    raise InvalidArgumentError(
                        "an episode is opened or resumed by the first message of a stream only",
                        field="message",
                        value=kind or "nothing",
                        allowed=("heartbeat", "end"),
                    )
            mailbox.finish()
        except asyncio.CancelledError:
            raise
        except Exception as error:
            # Ends the stream through its writer; has no effect if the stream was told its end.
            mailbox.finish(error=error)

    def _heartbeat(
        self, heartbeat: episode_pb2.Heartbeat, attachment: Attachment, mailbox: Mailbox
    ) -> None:
        received_s = self._clock.now_s()
        state = heartbeat.state if heartbeat.HasField("state") else None
        remaining_s = self._hub.heartbeat(attachment, state)
        mailbox.put(
            episode_pb2.RunResponse(
                heartbeat_ack=episode_pb2.HeartbeatAck(
                    sequence=heartbeat.sequence,
                    robot_sent_ns=heartbeat.robot_sent_ns,
                    server_received_ns=to_ns(received_s),
                    server_sent_ns=to_ns(self._clock.now_s()),
                    lease_remaining_s=remaining_s,
                )
            )
        )

    def _info(self, request: episode_pb2.OpenEpisode, tenant: str) -> EpisodeInfo:
        _check(request)
        for name in request.policies:
            if name not in self._services.policies:
                raise UnsupportedError(
                    "this server has no such policy",
                    field="policies",
                    value=name,
                    allowed=self._services.policies or ("none",),
                )
            # Unknown while the policy is loaded; then it is checked when the stream opens.
            spec = self._services.policies[name].spec
            if spec is not None:
                check_embodiment(spec, request.embodiment)
        if request.uses_brain and self._services.brain is None:
            raise UnsupportedError(
                "this server does not serve the brain", field="uses_brain", value=True
            )
        return EpisodeInfo(
            open_id=request.open_id,
            tenant=tenant,
            robot_id=request.robot_id,
            embodiment=request.embodiment,
            run_id=request.run_id,
            task=request.task,
            task_family=request.task_family,
            seed=request.seed if request.HasField("seed") else None,
            labels=dict(request.labels),
            control_hz=request.control_hz,
            policies=tuple(request.policies),
            uses_brain=request.uses_brain,
        )


def _check(request: episode_pb2.OpenEpisode) -> None:
    size = len(request.open_id.encode())
    if not 0 < size <= _MAX_ID_BYTES:
        raise InvalidArgumentError(
            "open_id must be a text that is unique to the episode, such as a UUID",
            field="open_id",
            value=f"{size} bytes",
            allowed=(f"1..{_MAX_ID_BYTES} bytes",),
        )
    if len(request.labels) > _MAX_LABELS:
        raise InvalidArgumentError(
            "too many labels",
            field="labels",
            value=len(request.labels),
            allowed=(f"at most {_MAX_LABELS}",),
        )
    for key in request.labels:
        if not 0 < len(key.encode()) <= _MAX_LABEL_KEY_BYTES:
            raise InvalidArgumentError(
                "a label has a key of a wrong length",
                field="labels",
                value=key,
                allowed=(f"1..{_MAX_LABEL_KEY_BYTES} bytes",),
            )
    texts = [
        ("robot_id", request.robot_id, _MAX_NAME_BYTES),
        ("embodiment", request.embodiment, _MAX_NAME_BYTES),
        ("run_id", request.run_id, _MAX_NAME_BYTES),
        ("task_family", request.task_family, _MAX_NAME_BYTES),
        ("task", request.task, _MAX_TASK_BYTES),
        *(("labels", value, _MAX_NAME_BYTES) for value in request.labels.values()),
    ]
    for field, text, most in texts:
        # Kept for the episode's life, logged and shown: an episode must not weigh megabytes.
        if len(text.encode()) > most:
            raise InvalidArgumentError(
                f"{field} is too long",
                field=field,
                value=f"{len(text.encode())} bytes",
                allowed=(f"at most {most} bytes",),
            )
    hz = request.control_hz
    if not (0 <= hz <= 10_000):
        raise InvalidArgumentError(
            "control_hz is a rate per second", field="control_hz", value=hz, allowed=("0..10000",)
        )
