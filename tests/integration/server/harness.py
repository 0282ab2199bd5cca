"""A server process and a robot made of raw stubs, for tests over real gRPC on loopback."""

from __future__ import annotations

import itertools
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import grpc
import numpy as np

from robot_sdk.api.v1 import (
    brain_pb2,
    brain_pb2_grpc,
    common_pb2,
    control_pb2,
    control_pb2_grpc,
    episode_pb2,
    episode_pb2_grpc,
    fleet_pb2,
    fleet_pb2_grpc,
    policy_pb2,
    policy_pb2_grpc,
)
from robot_sdk.clock import SYSTEM_CLOCK
from robot_sdk.errors import RobotSdkError, from_rpc_error
from robot_sdk.tensors import encode_tensor

REPOSITORY = Path(__file__).parents[3]
#: Longest wait for anything in these tests, seconds. Generous: the machines are slow and shared.
PATIENCE_S = 30.0
_MAX_BYTES = 64 * 1024 * 1024


def wait_until(condition: Callable[[], bool], timeout_s: float = PATIENCE_S) -> float:
    """Wait for a condition; returns the seconds it took. AssertionError when the time runs out."""
    started_s = SYSTEM_CLOCK.now_s()
    while not condition():
        waited_s = SYSTEM_CLOCK.now_s() - started_s
        assert waited_s < timeout_s, f"not within {timeout_s} s"
        SYSTEM_CLOCK.sleep_until(SYSTEM_CLOCK.now_s() + 0.01)
    return SYSTEM_CLOCK.now_s() - started_s


class Server:
    """`python -m server` as a child process."""

    def __init__(
        self,
        folder: Path,
        toml: str = "",
        *arguments: str,
        wait: bool = True,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._ready_file = folder / "ready.json"
        self._ready_file.unlink(missing_ok=True)
        config = folder / "server.toml"
        config.write_text(toml)
        self.log_path = folder / "server.log"
        command = [
            *(sys.executable, "-m", "server", "--config", str(config)),
            *("--ready-file", str(self._ready_file)),
            *arguments,
        ]
        if "[server]" not in toml and "--set" not in arguments:
            command += ["--set", "server.port=0"]
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                command,
                cwd=REPOSITORY,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, **(environment or {})},
            )
        if wait:
            wait_until(lambda: self._ready_file.exists() or self.process.poll() is not None, 60.0)
            assert self.process.poll() is None, self.log_path.read_text()
            self.ready = json.loads(self._ready_file.read_text())

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.ready['port']}"

    @property
    def log(self) -> str:
        return self.log_path.read_text()

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def wait_for_exit(self, timeout_s: float = PATIENCE_S) -> int:
        return self.process.wait(timeout_s)

    def close(self) -> None:
        if self.process.poll() is None:
            # Two signals of one kind may arrive as one; the second kind stops the drain at once.
            self.process.send_signal(signal.SIGTERM)
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


class Client:
    """A channel with all stubs."""

    def __init__(
        self,
        address: str,
        token: str | None = None,
        options: list[tuple[str, int]] | None = None,
    ) -> None:
        self.metadata = [("authorization", f"Bearer {token}")] if token else []
        self.channel = grpc.insecure_channel(
            address,
            options=[
                ("grpc.max_receive_message_length", _MAX_BYTES),
                ("grpc.max_send_message_length", _MAX_BYTES),
                *(options or []),
            ],
        )
        self.control = control_pb2_grpc.ControlServiceStub(self.channel)
        self.episodes = episode_pb2_grpc.EpisodeServiceStub(self.channel)
        self.brain = brain_pb2_grpc.BrainServiceStub(self.channel)
        self.policy = policy_pb2_grpc.PolicyServiceStub(self.channel)
        self.fleet = fleet_pb2_grpc.FleetServiceStub(self.channel)

    def status(self, episodes: bool = True) -> fleet_pb2.FleetStatus:
        request = fleet_pb2.StatusRequest(include_episodes=episodes)
        return self.fleet.Status(request, timeout=PATIENCE_S, metadata=self.metadata).status

    def handshake(self) -> control_pb2.HandshakeResponse:
        request = control_pb2.HandshakeRequest(client="test", protocols=["v1"])
        return self.control.Handshake(request, timeout=PATIENCE_S, metadata=self.metadata)

    def close(self) -> None:
        self.channel.close()


class Sender:
    """A request iterator that can be fed."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def __call__(self, message: Any) -> None:
        self._queue.put(message)

    def half_close(self) -> None:
        self._queue.put(None)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._queue.get, None)


class Inbox:
    """Reads a response stream in a thread."""

    def __init__(self, call: Any) -> None:
        self.call = call
        self.error: RobotSdkError | None = None
        self.code: grpc.StatusCode | None = None
        self.seen: list[Any] = []
        self._queue: queue.Queue[Any] = queue.Queue()
        self._last: Any = None
        self.done = threading.Event()
        threading.Thread(target=self._read, daemon=True).start()

    @property
    def ending(self) -> str:
        """What ended the stream, for the message of a check that fails."""
        if not self.done.is_set():
            return "the stream goes on"
        return f"ended with {self.code}, error {self.error}, last message {self._last}"

    def next(self, timeout_s: float = PATIENCE_S) -> Any:
        """The next message; raises the call's error if it has failed, StopIteration at its end."""
        message = self._queue.get(timeout=timeout_s)
        if message is not None:
            self.seen.append(message)
            return message
        self._queue.put(None)
        if self.error is not None:
            raise self.error
        raise StopIteration(self.ending)

    def until(self, kind: str, timeout_s: float = PATIENCE_S) -> Any:
        """The next message of a kind; others are passed over."""
        deadline_s = SYSTEM_CLOCK.now_s() + timeout_s
        while True:
            message = self.next(max(deadline_s - SYSTEM_CLOCK.now_s(), 0.001))
            if message.WhichOneof("message") == kind:
                return getattr(message, kind)

    def rest(self) -> list[Any]:
        """Everything until the stream ends."""
        messages = []
        try:
            while True:
                messages.append(self.next())
        except StopIteration:
            return messages

    def _read(self) -> None:
        try:
            for message in self.call:
                self._last = message
                self._queue.put(message)
            self.code = self.call.code()
        except grpc.RpcError as error:
            self.error = from_rpc_error(error)
            self.code = error.code()
        self.done.set()
        self._queue.put(None)


class Robot:
    """One episode by hand. Heartbeats only when told to."""

    def __init__(self, client: Client, open_id: str | None = None, **fields: Any) -> None:
        self.client = client
        fields.setdefault("policies", ["fake"])
        fields.setdefault("uses_brain", True)
        self.open = episode_pb2.OpenEpisode(
            open_id=open_id or str(uuid.uuid4()),
            robot_id=fields.pop("robot_id", "robot"),
            embodiment="test",
            task=fields.pop("task", "pick up the milk and place it in the basket"),
            control_hz=20.0,
            **fields,
        )
        self.reference = common_pb2.EpisodeRef()
        self._heartbeats = itertools.count(1)
        self._beating = threading.Event()
        self.send, self.inbox = self._run(episode_pb2.RunRequest(open=self.open))

    def _run(self, first: episode_pb2.RunRequest) -> tuple[Sender, Inbox]:
        send = Sender()
        send(first)
        call = self.client.episodes.Run(iter(send), metadata=self.client.metadata)
        return send, Inbox(call)

    def admitted(self, timeout_s: float = PATIENCE_S) -> episode_pb2.Admitted:
        """Wait for admission."""
        admitted = self.inbox.until("admitted", timeout_s)
        self.reference = common_pb2.EpisodeRef(
            episode_id=admitted.episode_id,
            episode_secret=admitted.episode_secret,
            epoch=admitted.epoch,
            server_boot_id=admitted.server_boot_id,
        )
        return admitted

    def heartbeat(self, **state: Any) -> None:
        self.send(
            episode_pb2.RunRequest(
                heartbeat=episode_pb2.Heartbeat(
                    sequence=next(self._heartbeats),
                    robot_sent_ns=123,
                    state=episode_pb2.RobotState(**state),
                )
            )
        )

    def keep_alive(self, interval_s: float = 0.1) -> None:
        """Heartbeats in the background until `stop_heartbeats` or `drop`."""
        self._beating.set()

        def beat() -> None:
            while self._beating.is_set():
                self.heartbeat()
                SYSTEM_CLOCK.sleep_until(SYSTEM_CLOCK.now_s() + interval_s)

        threading.Thread(target=beat, daemon=True).start()

    def stop_heartbeats(self) -> None:
        self._beating.clear()

    def reopen(self) -> None:
        """Open again with the same open_id, as after a lost stream."""
        self.send, self.inbox = self._run(episode_pb2.RunRequest(open=self.open))

    def resume(self) -> None:
        request = episode_pb2.ResumeEpisode(episode=self.reference)
        self.send, self.inbox = self._run(episode_pb2.RunRequest(resume=request))

    def drop(self) -> None:
        """The Run stream breaks."""
        self._beating.clear()
        self.inbox.call.cancel()

    def end(self) -> episode_pb2.Ended:
        self._beating.clear()
        self.send(
            episode_pb2.RunRequest(
                end=episode_pb2.EndEpisode(outcome=episode_pb2.EPISODE_OUTCOME_SUCCESS)
            )
        )
        return self.inbox.until("ended")

    def decide(
        self,
        turn_index: int = 0,
        messages: list[brain_pb2.Message] | None = None,
        timeout_s: float | None = PATIENCE_S,
        **fields: Any,
    ) -> Inbox:
        if messages is None:
            messages = [user(self.open.task)]
        request = brain_pb2.DecideRequest(
            episode=self.reference, turn_index=turn_index, new_messages=messages, **fields
        )
        return Inbox(
            self.client.brain.Decide(request, timeout=timeout_s, metadata=self.client.metadata)
        )

    def chunks(self, policy: str = "fake", **fields: Any) -> Chunks:
        return Chunks(self, policy, **fields)


class Chunks:
    """One Chunks stream by hand."""

    def __init__(self, robot: Robot, policy: str, **fields: Any) -> None:
        fields.setdefault("observation_keys", ["observation/state"])
        fields.setdefault("control_hz", 20.0)
        self.send = Sender()
        self.send(
            policy_pb2.ChunksRequest(
                open=policy_pb2.ChunksOpen(
                    episode=robot.reference,
                    policy=policy,
                    instruction=fields.pop("instruction", "pick up the milk"),
                    **fields,
                )
            )
        )
        call = robot.client.policy.Chunks(iter(self.send), metadata=robot.client.metadata)
        self.inbox = Inbox(call)

    def opened(self) -> policy_pb2.ChunksOpened:
        return self.inbox.until("opened")

    def observe(
        self, sequence: int, control_step: int = 0, state: Any = None, **fields: Any
    ) -> None:
        state = np.zeros(8, np.float32) if state is None else state
        self.send(
            policy_pb2.ChunksRequest(
                observation=policy_pb2.Observation(
                    sequence=sequence,
                    control_step=control_step,
                    tensors={"observation/state": encode_tensor(state)},
                    **fields,
                )
            )
        )

    def close(self) -> None:
        self.inbox.call.cancel()


def user(text: str) -> brain_pb2.Message:
    return brain_pb2.Message(role=brain_pb2.ROLE_USER, parts=[brain_pb2.ContentPart(text=text)])


def tool_result(call_id: str, name: str, text: str, is_error: bool = False) -> brain_pb2.Message:
    return brain_pb2.Message(
        role=brain_pb2.ROLE_TOOL,
        parts=[brain_pb2.ContentPart(text=text)],
        tool_call_id=call_id,
        tool_name=name,
        is_error=is_error,
    )
