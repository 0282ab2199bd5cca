"""Chunk streams with slow, dying and misbehaving policies and with wrong observations."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from robot_sdk.api.v1 import common_pb2, fleet_pb2
from robot_sdk.clock import SYSTEM_CLOCK
from robot_sdk.errors import (
    BadModelOutputError,
    CancelledByServerError,
    DeadlineExceededError,
    InternalServerError,
    InvalidArgumentError,
    ObservationMismatchError,
    OutOfOrderError,
    RobotSdkError,
    WorkerUnavailableError,
    from_detail,
)
from robot_sdk.images import encode_image
from robot_sdk.tensors import decode_tensor
from tests.integration.server.harness import Chunks, Client, Robot, Server, wait_until

POLICY = """
[policies.fake]
kind = "factory"
factory = "tests.fakes.policies:{name}"
options = {options}
"""

Start = Callable[..., Server]
Connect = Callable[..., Client]


def toml(name: str = "StepPolicy", options: str = "{}") -> str:
    return POLICY.format(name=name, options=options)


def robot_on(server: Server, connect: Connect) -> Robot:
    robot = Robot(connect(server))
    robot.admitted()
    robot.keep_alive()
    return robot


def failure(chunks: Chunks) -> RobotSdkError:
    """The next message, which must be a ChunkFailed."""
    message = chunks.inbox.next()
    assert message.WhichOneof("message") == "failed", message
    return from_detail(message.failed.error)


def running(client: Client) -> int:
    return client.status().policies[0].running_observations


def children(pid: int) -> list[int]:
    return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def worker_pid(server: Server) -> int:
    for pid in children(server.process.pid):
        if b"server.policy.worker_main" in Path(f"/proc/{pid}/cmdline").read_bytes():
            return pid
    raise AssertionError("no policy worker")


def test_a1_eleven_megabytes_in_and_five_out(start_server: Start, connect: Connect) -> None:
    robot = robot_on(start_server(toml(options="{horizon = 200000}")), connect)
    chunks = robot.chunks()
    chunks.opened()

    chunks.observe(1, state=np.zeros(3 * 480 * 640 * 3, np.float32))
    actions = decode_tensor(chunks.inbox.until("chunk").actions)

    assert actions.nbytes == 200_000 * 7 * 4
    chunks.close()
    robot.drop()


def test_a3_a_policy_that_blocks_holds_up_nobody_else(
    start_server: Start, connect: Connect
) -> None:
    server = start_server(toml(options="{delay_s = 3.0}"))
    robot = robot_on(server, connect)
    chunks = robot.chunks()
    chunks.opened()
    chunks.observe(1)
    wait_until(lambda: running(robot.client) == 1)

    client = connect(server)
    health = health_pb2_grpc.HealthStub(client.channel)
    assert health.Check(health_pb2.HealthCheckRequest()).status == 1
    other = Robot(client)
    other.admitted()
    other.heartbeat()
    other.inbox.until("heartbeat_ack")
    assert other.decide().rest()[-1].WhichOneof("message") == "done"

    assert running(client) == 1
    assert not any(m.WhichOneof("message") == "chunk" for m in chunks.inbox.seen)
    chunks.inbox.until("chunk")
    chunks.close()
    robot.drop()
    other.drop()


def test_a3_a_huge_message_does_not_hold_up_health_checks(
    start_server: Start, connect: Connect
) -> None:
    server = start_server()
    robot = robot_on(server, connect)
    chunks = robot.chunks()
    chunks.opened()
    health = health_pb2_grpc.HealthStub(connect(server).channel)

    chunks.observe(1, state=np.zeros(15_000_000, np.float32))
    started_s = SYSTEM_CLOCK.now_s()
    waits_s = []
    while not chunks.inbox.seen[1:]:
        asked_s = SYSTEM_CLOCK.now_s()
        health.Check(health_pb2.HealthCheckRequest(), timeout=5.0)
        waits_s.append(SYSTEM_CLOCK.now_s() - asked_s)
        with contextlib.suppress(queue.Empty):
            chunks.inbox.next(timeout_s=0.001)
    took_s = SYSTEM_CLOCK.now_s() - started_s

    assert chunks.inbox.seen[-1].WhichOneof("message") == "chunk"
    # A front end that decodes or computes on its loop answers one check in all that time.
    assert len(waits_s) > 10
    assert max(waits_s) < took_s / 2
    chunks.close()
    robot.drop()


def test_a4_control_goes_on_after_one_slow_inference(start_server: Start, connect: Connect) -> None:
    robot = robot_on(start_server(toml(options="{first_delay_s = 1.5}")), connect)
    chunks = robot.chunks()
    chunks.opened()

    chunks.observe(1)
    wait_until(lambda: running(robot.client) == 1)
    chunks.observe(2, deadline_s=0.3)
    late = failure(chunks)  # while the worker is still busy with the first
    slow = chunks.inbox.until("chunk")
    chunks.observe(3)
    quick = chunks.inbox.until("chunk")

    assert (slow.sequence, quick.sequence) == (1, 3)
    assert isinstance(late, DeadlineExceededError)
    chunks.close()
    robot.drop()


@pytest.mark.faultinjection
def test_a6_a_worker_killed_in_mid_inference_fails_it_and_comes_back(
    start_server: Start, connect: Connect
) -> None:
    server = start_server(toml(options="{delay_s = 1.0}"))
    robot = robot_on(server, connect)
    chunks = robot.chunks()
    chunks.opened()
    chunks.observe(1)
    wait_until(lambda: running(robot.client) == 1)

    os.kill(worker_pid(server), signal.SIGKILL)
    error = failure(chunks)
    health = health_pb2_grpc.HealthStub(robot.client.channel)
    name = health_pb2.HealthCheckRequest(service="robot_sdk.api.v1.PolicyService")
    wait_until(lambda: health.Check(name).status == 2)
    wait_until(lambda: health.Check(name).status == 1)
    chunks.observe(2)

    assert isinstance(error, WorkerUnavailableError)
    assert error.retry_after_s is not None
    assert chunks.inbox.until("chunk").sequence == 2
    assert running(robot.client) == 0
    chunks.close()
    robot.drop()


@pytest.mark.faultinjection
def test_a6_a_worker_that_hangs_is_ended_and_comes_back(
    start_server: Start, connect: Connect
) -> None:
    server = start_server(toml("HangingPolicy") + "infer_timeout_s = 1.0\n")
    robot = robot_on(server, connect)
    chunks = robot.chunks()
    chunks.opened()
    hanging = worker_pid(server)

    chunks.observe(1, control_step=666)
    error = failure(chunks)
    wait_until(lambda: robot.client.status().policies[0].ready_workers == 1)
    chunks.observe(2)

    assert isinstance(error, WorkerUnavailableError)
    assert error.retry_after_s is not None
    assert chunks.inbox.until("chunk").sequence == 2
    assert worker_pid(server) != hanging
    assert server.log.count("policies.fake.infer_timeout_s") == 1
    chunks.close()
    robot.drop()


@pytest.mark.faultinjection
def test_a6_a_killed_worker_is_noticed_although_a_child_of_it_lives_on(
    start_server: Start, connect: Connect, tmp_path: Path
) -> None:
    pid_file = tmp_path / "child.pid"
    server = start_server(
        toml("ForkingPolicy", options=f'{{pid_file = "{pid_file}", child_s = 60.0}}')
    )
    robot = robot_on(server, connect)
    wait_until(lambda: pid_file.exists() and pid_file.read_text() != "")
    child = int(pid_file.read_text())
    try:
        os.kill(worker_pid(server), signal.SIGKILL)
        wait_until(lambda: robot.client.status().policies[0].ready_workers == 0, 5.0)
        wait_until(lambda: robot.client.status().policies[0].ready_workers == 1)
        chunks = robot.chunks()
        chunks.opened()
        chunks.observe(1)

        assert chunks.inbox.until("chunk").sequence == 1
        chunks.close()
    finally:
        os.kill(child, signal.SIGKILL)
    robot.drop()


def test_a6_a_policy_that_is_still_loading_says_when_to_come_back(
    start_server: Start, connect: Connect
) -> None:
    server = start_server(
        '[server]\nport = 0\nlog_level = "info"\n' + toml("SlowLoadPolicy", "{load_s = 3.0}"),
        wait=False,
    )
    wait_until(lambda: "listening on" in server.log)
    server.ready = {"port": int(server.log.split("listening on 127.0.0.1:")[1].split(",")[0])}
    client = connect(server)
    health = health_pb2_grpc.HealthStub(client.channel)
    robot = Robot(client)
    robot.admitted()

    assert health.Check(health_pb2.HealthCheckRequest(), wait_for_ready=True).status == 2
    with pytest.raises(WorkerUnavailableError, match="loading") as caught:
        robot.chunks().opened()
    assert caught.value.retry_after_s is not None
    wait_until(lambda: health.Check(health_pb2.HealthCheckRequest()).status == 1)
    robot.drop()


def test_a7_work_of_a_stream_that_has_gone_counts_until_it_is_done(
    start_server: Start, connect: Connect
) -> None:
    server = start_server(toml(options="{first_delay_s = 4.0}") + "max_batch = 1\n")
    robot = robot_on(server, connect)

    def policy() -> fleet_pb2.PolicyStatus:
        return robot.client.status().policies[0]

    for number in range(10):
        chunks = robot.chunks()
        chunks.opened()
        chunks.observe(1)
        wait_until(lambda: policy().running_observations == 1)
        wait_until(lambda n=number: policy().waiting_observations == min(n, 1))
        chunks.close()
        wait_until(lambda: policy().waiting_observations == 0)

    assert running(robot.client) == 1
    chunks = robot.chunks()
    chunks.opened()
    chunks.observe(1)
    chunks.inbox.until("chunk")

    # The one that was running and its own: none of the nine that had gone in between.
    assert policy().chunks_total == 2
    assert running(robot.client) == 0
    chunks.close()
    robot.drop()


@pytest.mark.parametrize("kind", ["empty", "flat", "wide", "ragged", "nan", "limits", "none"])
def test_a14_a_chunk_that_may_not_be_used_is_a_named_error_and_the_stream_goes_on(
    start_server: Start, connect: Connect, kind: str
) -> None:
    robot = robot_on(start_server(toml("BadOutputPolicy", f'{{kind = "{kind}"}}')), connect)
    chunks = robot.chunks()
    chunks.opened()

    chunks.observe(1, control_step=0)
    error = failure(chunks)
    chunks.observe(2, control_step=100)

    assert isinstance(error, BadModelOutputError)
    assert chunks.inbox.until("chunk").sequence == 2
    chunks.close()
    robot.drop()


def test_a_policy_that_raises_tells_no_internals(start_server: Start, connect: Connect) -> None:
    server = start_server(toml("BadOutputPolicy", '{kind = "raise"}'))
    robot = robot_on(server, connect)
    chunks = robot.chunks()
    chunks.opened()
    chunks.observe(1)

    error = failure(chunks)

    assert isinstance(error, InternalServerError)
    assert "secret detail" not in str(error)
    assert "secret detail" in server.log
    chunks.close()
    robot.drop()


def test_a15_of_many_observations_only_the_newest_waits(
    start_server: Start, connect: Connect
) -> None:
    robot = robot_on(start_server(toml(options="{delay_s = 0.5}")), connect)
    chunks = robot.chunks()
    chunks.opened()
    chunks.observe(0)
    wait_until(lambda: running(robot.client) == 1)

    for sequence in range(1, 41):
        chunks.observe(sequence)
    answered = [chunks.inbox.next() for _ in range(2)]
    while answered[-1].WhichOneof("message") != "chunk" or answered[-1].chunk.sequence != 40:
        answered.append(chunks.inbox.next())

    served = [m.chunk.sequence for m in answered if m.WhichOneof("message") == "chunk"]
    dropped = [m.failed for m in answered if m.WhichOneof("message") == "failed"]
    assert served == [0, 40]
    assert all(isinstance(from_detail(f.error), CancelledByServerError) for f in dropped)
    policy = robot.client.status().policies[0]
    assert (policy.superseded_total, policy.chunks_total) == (39, 2)
    chunks.close()
    robot.drop()


def test_observations_of_several_robots_share_a_batch(
    start_server: Start, connect: Connect
) -> None:
    client = connect(start_server(toml(options="{delay_s = 0.5}")))
    robots = [Robot(client) for _ in range(4)]
    streams = []
    for robot in robots:
        robot.admitted()
        robot.keep_alive()
        streams.append(robot.chunks())
        streams[-1].opened()
    streams[0].observe(1)
    wait_until(lambda: running(client) == 1)

    for stream in streams[1:]:
        stream.observe(1)
    sizes = [stream.inbox.until("chunk").timing.batch_size for stream in streams]

    assert sizes == [1, 3, 3, 3]
    for robot, stream in zip(robots, streams):
        stream.close()
        robot.drop()


def test_a_stream_without_a_required_key_is_refused_by_name(robot: Robot) -> None:
    with pytest.raises(ObservationMismatchError, match="observation/state"):
        robot.chunks(observation_keys=["observation/other"]).opened()


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (np.zeros(8, np.float64), "float64"),
        (np.zeros((2, 4), np.float32), r"\(2, 4\)"),
    ],
)
def test_an_observation_of_another_dtype_or_shape_is_refused_by_name(
    robot: Robot, state: np.ndarray, words: str
) -> None:
    chunks = robot.chunks()
    chunks.opened()
    chunks.observe(1, state=state)

    error = failure(chunks)
    chunks.observe(2)

    assert isinstance(error, ObservationMismatchError)
    assert error.field == "observation/state"
    assert error.value == str(error.value)
    assert chunks.inbox.until("chunk").sequence == 2
    chunks.close()


def test_a_tensor_that_lies_about_its_size_is_refused(robot: Robot) -> None:
    chunks = robot.chunks()
    chunks.opened()
    chunks.observe(1)
    chunks.inbox.until("chunk")
    lying = common_pb2.Tensor(dtype=common_pb2.D_TYPE_FLOAT32, shape=[1 << 40], data=b"1234")
    from robot_sdk.api.v1 import policy_pb2

    chunks.send(
        policy_pb2.ChunksRequest(
            observation=policy_pb2.Observation(sequence=2, tensors={"observation/state": lying})
        )
    )

    assert isinstance(failure(chunks), InvalidArgumentError)
    chunks.close()


def test_a_sequence_that_does_not_count_up_is_refused(robot: Robot) -> None:
    chunks = robot.chunks()
    chunks.opened()
    chunks.observe(5)
    chunks.inbox.until("chunk")

    chunks.observe(5)

    assert isinstance(failure(chunks), OutOfOrderError)
    chunks.close()


def test_a_refusal_that_comes_while_a_chunk_is_being_sent_is_not_lost(robot: Robot) -> None:
    chunks = robot.chunks()
    chunks.opened()

    for sequence in range(1, 301):
        chunks.observe(sequence)
        chunks.inbox.until("chunk")
        chunks.observe(sequence)
        assert isinstance(failure(chunks), OutOfOrderError)
    chunks.close()


def test_a_deadline_that_is_no_number_is_refused(robot: Robot) -> None:
    chunks = robot.chunks()
    chunks.opened()

    chunks.observe(1, deadline_s=float("nan"))
    error = failure(chunks)
    chunks.observe(2, deadline_s=30.0)

    assert type(error) is InvalidArgumentError
    assert error.field == "deadline_s"
    assert chunks.inbox.until("chunk").sequence == 2
    chunks.close()


def test_a_policy_the_episode_did_not_name_is_refused(robot: Robot) -> None:
    with pytest.raises(InvalidArgumentError, match="allowed: fake"):
        robot.chunks(policy="other").opened()


def test_half_closing_ends_the_stream_after_the_last_answer(robot: Robot) -> None:
    chunks = robot.chunks()
    chunks.observe(1)
    chunks.send.half_close()

    kinds = [m.WhichOneof("message") for m in chunks.inbox.rest()]

    assert kinds == ["opened", "chunk"]


def test_pictures_arrive_as_pixels_raw_or_compressed(start_server: Start, connect: Connect) -> None:
    import io

    from PIL import Image

    robot = robot_on(start_server(toml(options="{image_px = 32}")), connect)
    pixels = np.random.default_rng(0).integers(0, 255, (32, 32, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, format="PNG")
    keys = ["observation/state", "images/agentview", "images/wrist"]
    chunks = robot.chunks(observation_keys=keys)
    chunks.opened()

    chunks.observe(
        1,
        images={
            "images/agentview": encode_image(pixels),
            "images/wrist": encode_image(file.getvalue()),
        },
    )
    assert chunks.inbox.until("chunk").sequence == 1
    wrong = encode_image(pixels[:16])
    chunks.observe(2, images={"images/agentview": wrong, "images/wrist": wrong})

    error = failure(chunks)
    assert isinstance(error, ObservationMismatchError)
    assert error.field == "images/agentview"
    chunks.close()
    robot.drop()
