"""Traces of whole episodes, also of those that break off."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import pytest

from robot_sdk import telemetry
from robot_sdk.api.v1 import brain_pb2, brain_pb2_grpc
from robot_sdk.channel import ChannelConfig
from robot_sdk.client import connect
from robot_sdk.grpc_transport import GrpcTransport
from robot_sdk.messages import Message
from robot_sdk.telemetry import attributes
from robot_sdk.trace import read_folder
from tests.integration.end_to_end.conftest import Start
from tests.integration.end_to_end.harness import FINISH, EpisodeThread, LoggingRobot, config
from tests.integration.server.harness import Client, Inbox, Robot, user, wait_until


def test_e3_an_episode_is_one_trace_from_robot_to_server(
    start_server: Start, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "run"
    calls = [("drive", {"steps": 20}), ("note", {}), FINISH]
    server = start_server(config(calls, more=f'[telemetry]\nrun_folder = "{folder}"\n'))
    source = telemetry.start("robot", folder)
    with connect(server.address, telemetry=source) as client:
        for _ in range(2):
            assert EpisodeThread(client, LoggingRobot()).result().success
    assert source.shutdown(10.0)
    server.signal(signal.SIGTERM)
    assert server.wait_for_exit() == 0

    spans = read_folder(folder).spans
    assert len({span.trace_id for span in spans}) == 2
    for trace_id in {span.trace_id for span in spans}:
        names = [span.name for span in spans if span.trace_id == trace_id]
        assert (names.count("episode"), names.count("server.episode")) == (1, 1)
        assert names.count("brain.decide") == names.count("server.decide") == 3
        assert names.count("policy.chunk") >= names.count("server.chunk") >= 1
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert "Traceback" not in server.log


def test_e3_a_stream_that_is_broken_off_leaves_no_error_and_no_stray_trace(
    start_server: Start, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "run"
    server = start_server(
        '[brain]\nengine = "factory"\nfactory = "tests.fakes.scripted:TickingBrain"\n'
        f'options = {{num = 2000}}\n[policies]\n[telemetry]\nrun_folder = "{folder}"\n'
    )
    heard: list[str] = []

    def break_off(text: str) -> None:
        heard.append(text)
        raise KeyboardInterrupt

    source = telemetry.start("robot", folder)
    with connect(server.address, telemetry=source) as client:
        span = source.start_span("episode")
        trace = telemetry.trace_context(span)
        with (
            pytest.raises(KeyboardInterrupt),
            client.episode(task="go", robot_id="robot", trace=trace) as episode,
        ):
            episode.decide([Message.of_text("user", "go")], on_text=break_off, trace=trace)
        span.end()
    assert source.shutdown(10.0)
    server.signal(signal.SIGTERM)
    assert server.wait_for_exit() == 0

    assert len(heard) == 1
    spans = read_folder(folder).spans
    assert {"episode", "server.episode"} <= {span.name for span in spans}
    assert len({span.trace_id for span in spans}) == 1
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert "Traceback" not in server.log
    assert "detach" not in server.log + caplog.text


class MetadataBrain(brain_pb2_grpc.BrainServiceServicer):
    """Keeps the metadata of the calls that reach it."""

    def __init__(self) -> None:
        self.metadata: list[dict[str, Any]] = []

    def Decide(
        self, request: brain_pb2.DecideRequest, context: grpc.ServicerContext
    ) -> Iterator[brain_pb2.DecideResponse]:
        self.metadata.append(dict(context.invocation_metadata()))
        yield brain_pb2.DecideResponse(done=brain_pb2.DecideDone())


def test_a_turn_tells_its_trace_in_metadata_too() -> None:
    brain = MetadataBrain()
    server = grpc.server(futures.ThreadPoolExecutor(2))
    brain_pb2_grpc.add_BrainServiceServicer_to_server(brain, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    source = telemetry.start("robot")
    trace = telemetry.trace_context(source.start_span("brain.decide"))
    transport = GrpcTransport(ChannelConfig(f"127.0.0.1:{port}"))

    list(transport.decide(brain_pb2.DecideRequest(trace=trace), 10.0))
    list(transport.decide(brain_pb2.DecideRequest(), 10.0))

    transport.close()
    server.stop(None)
    source.shutdown()
    traced, untraced = brain.metadata
    assert traced["traceparent"] == trace.traceparent != ""
    assert "traceparent" not in untraced


def test_a_turn_without_a_trace_in_its_message_joins_the_one_in_its_metadata(
    start_server: Start, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    server = start_server(config([FINISH], more=f'[telemetry]\nrun_folder = "{folder}"\n'))
    client = Client(server.address)
    robot = Robot(client, policies=[])
    robot.admitted()
    request = brain_pb2.DecideRequest(episode=robot.reference, new_messages=[user("go")])
    parent = f"00-{7:032x}-{9:016x}-01"

    Inbox(client.brain.Decide(request, metadata=[("traceparent", parent)])).until("done")

    robot.end()
    client.close()
    server.signal(signal.SIGTERM)
    assert server.wait_for_exit() == 0
    (span,) = [span for span in read_folder(folder).spans if span.name == "server.decide"]
    assert (span.trace_id, span.parent_id) == (f"{7:032x}", f"{9:016x}")


def test_a_turns_slack_is_what_the_last_heartbeat_leaves_the_robot_to_do(
    start_server: Start, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    server = start_server(config([FINISH], more=f'[telemetry]\nrun_folder = "{folder}"\n'))
    client = Client(server.address)
    robot = Robot(client, policies=[])
    robot.admitted()
    robot.heartbeat(tool="drive", steps_left=1200, buffered_steps=5)
    wait_until(lambda: client.status().episodes[0].robot_state.steps_left == 1200)

    robot.decide(0, [user("go")]).until("done")

    robot.end()
    client.close()
    server.signal(signal.SIGTERM)
    assert server.wait_for_exit() == 0
    (span,) = [span for span in read_folder(folder).spans if span.name == "server.decide"]
    # 1,200 steps at 20 Hz, less the time since it said so.
    assert 50.0 < span.attributes[attributes.BRAIN_SLACK_S] < 60.0
