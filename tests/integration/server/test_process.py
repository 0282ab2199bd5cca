"""The server as a process: configuration, ports, tokens, TLS, signals, health."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from robot_sdk.api.v1 import control_pb2, fleet_pb2
from robot_sdk.errors import (
    PermissionDeniedError,
    RobotSdkError,
    UnauthenticatedError,
    UnsupportedError,
    from_rpc_error,
)
from tests.integration.server.conftest import ENGINES
from tests.integration.server.harness import REPOSITORY, Client, Robot, Server, wait_until

Start = Callable[..., Server]
Connect = Callable[..., Client]

NO_MODELS = '[server]\nport = 0\nroles = ["policy"]\n[policies]\n'


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "server", *arguments],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=60,
    )


def failing(call: Callable[[], object]) -> RobotSdkError:
    with pytest.raises(grpc.RpcError) as caught:
        call()
    return from_rpc_error(caught.value)


def test_a_port_in_use_is_one_line_that_names_it() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        result = run("--set", f"server.port={port}")

    assert result.returncode == 2
    errors = [line for line in result.stderr.splitlines() if line.startswith("error:")]
    assert len(errors) == 1
    assert f"127.0.0.1:{port}" in errors[0]
    assert "Traceback" not in result.stderr


def test_a_metrics_port_in_use_is_one_line_that_names_it() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        result = run("--set", "server.port=0", "--set", f"telemetry.prometheus_port={port}")

    assert result.returncode == 2
    assert f"error: cannot listen on 127.0.0.1:{port} (telemetry.prometheus_port)" in result.stderr
    assert "Traceback" not in result.stderr


def test_two_servers_never_share_a_port(start_server: Start) -> None:
    first = start_server(NO_MODELS)

    result = run("--set", f"server.port={first.ready['port']}")

    assert result.returncode == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--set", "episodes.lease_tll_s=3"], "did you mean episodes.lease_ttl_s"),
        (["--set", "admision.cap=3"], "did you mean admission"),
        (["--set", "server.port=99999"], "server.port is 99999; allowed: >= 0 and <= 65535"),
        (["--set", "server.host=0.0.0.0"], "auth.tokens_file"),
        (["--config", "nowhere.toml"], "cannot read nowhere.toml"),
        (["--set", "auth.tokens_file=nowhere"], "cannot read nowhere"),
        (["--set", "tls.certificate_file=nowhere"], "tls.key_file"),
    ],
)
def test_a_wrong_setting_is_one_line_and_exit_code_2(arguments: list[str], words: str) -> None:
    result = run(*arguments)

    assert result.returncode == 2
    assert words in result.stderr
    assert "Traceback" not in result.stderr


def test_a_policy_that_cannot_load_ends_the_start_with_its_reason() -> None:
    result = run(
        *("--set", "server.port=0", "--set", "policies.x.kind=factory"),
        *("--set", "policies.x.factory=tests.fakes.policies:BrokenPolicy"),
    )

    assert result.returncode == 3
    assert "error: policy x/0 cannot load" in result.stderr
    assert "no such checkpoint: x.safetensors" in result.stderr


def test_workers_that_could_load_leave_without_a_word_when_another_cannot() -> None:
    result = run(
        *("--set", "server.port=0", "--set", "policies.x.kind=factory"),
        *("--set", "policies.x.factory=tests.fakes.policies:BrokenPolicy"),
        *("--set", "policies.y.kind=factory", "--set", "policies.y.options={load_s=1.0}"),
        *("--set", "policies.y.factory=tests.fakes.policies:SlowLoadPolicy"),
    )

    assert result.returncode == 3
    assert "error: policy x/0 cannot load" in result.stderr
    assert "Traceback" not in result.stderr


def test_the_ready_file_and_the_first_line_tell_where_the_server_is(start_server: Start) -> None:
    server = start_server(NO_MODELS)

    assert server.process.stdout is not None
    line = server.process.stdout.readline().decode()
    assert line == f"listening on 127.0.0.1:{server.ready['port']}\n"
    assert server.ready["pid"] == server.process.pid
    assert server.ready["boot_id"]


def test_sigterm_without_episodes_ends_at_once_with_0_and_leaves_no_child(
    start_server: Start,
) -> None:
    server = start_server()
    pid = server.process.pid
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    assert len(children) >= 2

    server.signal(signal.SIGTERM)

    assert server.wait_for_exit() == 0
    assert not [child for child in children if Path(f"/proc/{child}").exists()]


def test_a_second_signal_does_not_wait_for_the_drain(start_server: Start, connect: Connect) -> None:
    server = start_server()
    robot = Robot(connect(server))
    robot.admitted()
    robot.keep_alive()

    server.signal(signal.SIGTERM)
    robot.inbox.until("draining")
    server.signal(signal.SIGTERM)

    assert "shut down" in robot.inbox.until("revoked").error.message
    assert server.wait_for_exit() == 0
    robot.stop_heartbeats()


@pytest.mark.faultinjection
def test_workers_do_not_outlive_a_server_that_was_killed(start_server: Start) -> None:
    server = start_server()
    pid = server.process.pid
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()

    server.process.kill()
    server.wait_for_exit()

    def gone(child: str) -> bool:
        try:
            return ") Z" in Path(f"/proc/{child}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return True

    wait_until(lambda: all(gone(child) for child in children))


TOKENS = "# comment\nrobot-token acme robot\n\nadmin-token acme admin\n"


@pytest.fixture
def guarded(start_server: Start, tmp_path: Path) -> Server:
    """A server with tokens."""
    (tmp_path / "tokens").write_text(TOKENS)
    return start_server(f'[auth]\ntokens_file = "{tmp_path / "tokens"}"\n{ENGINES}')


def test_a_missing_or_wrong_token_is_unauthenticated(guarded: Server, connect: Connect) -> None:
    for token in (None, "wrong", "robot-token2"):
        client = connect(guarded, token)
        assert isinstance(failing(client.handshake), UnauthenticatedError)
        with pytest.raises(UnauthenticatedError):
            Robot(client).inbox.next()
    assert "robot-token" not in guarded.log


def test_a_robots_token_serves_episodes_but_not_operations(
    guarded: Server, connect: Connect
) -> None:
    client = connect(guarded, "robot-token")
    robot = Robot(client)
    robot.admitted()

    assert client.status().episodes[0].tenant == "acme"
    for call in (
        lambda: client.fleet.SetCap(fleet_pb2.SetCapRequest(), metadata=client.metadata),
        lambda: client.fleet.Drain(fleet_pb2.DrainRequest(), metadata=client.metadata),
        lambda: client.fleet.EndEpisode(
            fleet_pb2.EndEpisodeRequest(episode_id=robot.reference.episode_id),
            metadata=client.metadata,
        ),
    ):
        error = failing(call)
        assert isinstance(error, PermissionDeniedError)
        assert error.allowed == ("admin",)
    robot.drop()


def test_an_admins_token_may_end_an_episode(guarded: Server, connect: Connect) -> None:
    robot = Robot(connect(guarded, "robot-token"))
    robot.admitted()
    admin = connect(guarded, "admin-token")

    request = fleet_pb2.EndEpisodeRequest(episode_id=robot.reference.episode_id)
    ended = admin.fleet.EndEpisode(request, metadata=admin.metadata).episode

    assert ended.episode_id == robot.reference.episode_id
    robot.inbox.until("revoked")


def test_health_probes_need_no_token(guarded: Server, connect: Connect) -> None:
    health = health_pb2_grpc.HealthStub(connect(guarded).channel)

    for service in ("", "robot_sdk.api.v1.EpisodeService", "robot_sdk.api.v1.PolicyService"):
        assert health.Check(health_pb2.HealthCheckRequest(service=service)).status == 1


def test_health_turns_with_the_drain(start_server: Start, connect: Connect) -> None:
    client = connect(start_server())
    robot = Robot(client)
    robot.admitted()
    robot.keep_alive()
    health = health_pb2_grpc.HealthStub(client.channel)
    episodes = health_pb2.HealthCheckRequest(service="robot_sdk.api.v1.EpisodeService")
    brain = health_pb2.HealthCheckRequest(service="robot_sdk.api.v1.BrainService")

    client.fleet.Drain(fleet_pb2.DrainRequest(deadline_s=60.0))

    wait_until(lambda: health.Check(episodes).status == 2)
    assert health.Check(brain).status == 1
    assert client.handshake().draining
    robot.end()


def test_reflection_lists_all_services(start_server: Start, connect: Connect) -> None:
    stub = reflection_pb2_grpc.ServerReflectionStub(connect(start_server(NO_MODELS)).channel)
    request = reflection_pb2.ServerReflectionRequest(list_services="")

    (response,) = stub.ServerReflectionInfo(iter([request]))

    names = {service.name for service in response.list_services_response.service}
    assert {
        f"robot_sdk.api.v1.{name}Service"
        for name in ("Brain", "Control", "Episode", "Fleet", "Policy")
    } <= names


def test_the_handshake_tells_limits_roles_and_policies(
    start_server: Start, connect: Connect
) -> None:
    answer = connect(start_server()).handshake()

    assert answer.protocol == "v1"
    assert list(answer.roles) == ["brain", "policy"]
    assert [spec.name for spec in answer.policies] == ["fake"]
    assert answer.brain.engine == "demo-planner"
    assert not answer.brain.HasField("max_context_tokens")
    assert answer.limits.max_message_bytes == 64 * 1024 * 1024
    assert answer.limits.lease_ttl_s == 10.0


def test_a_client_of_another_protocol_version_is_told_ours(
    start_server: Start, connect: Connect
) -> None:
    client = connect(start_server(NO_MODELS))

    error = failing(
        lambda: client.control.Handshake(control_pb2.HandshakeRequest(protocols=["v9"]))
    )

    assert isinstance(error, UnsupportedError)
    assert error.allowed == ("v1",)


def test_the_clock_exchange_answers_with_both_server_times(
    start_server: Start, connect: Connect
) -> None:
    client = connect(start_server(NO_MODELS))

    answer = client.control.Exchange(control_pb2.ExchangeRequest(robot_sent_ns=42))

    assert answer.robot_sent_ns == 42
    assert 0 < answer.server_received_ns <= answer.server_sent_ns
    assert answer.server_boot_id == client.handshake().server_boot_id


def test_a2_pings_on_a_quiet_connection_are_no_strike(
    start_server: Start, connect: Connect
) -> None:
    server = start_server(
        f"[server]\nport = 0\nmin_keepalive_interval_s = 0.1\n[brain]\ndelay_s = 4.0\n{ENGINES}"
    )
    client = Client(
        server.address,
        options=[
            ("grpc.keepalive_time_ms", 200),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.max_pings_without_data", 0),
        ],
    )
    robot = Robot(client)
    robot.admitted()

    # No heartbeats: data frames would forgive the pings. The turn is shorter than the lease.
    messages = robot.decide().rest()

    assert messages[-1].WhichOneof("message") == "done"
    robot.drop()
    client.close()


def test_a_certificate_that_is_none_is_one_line_that_names_it(tmp_path: Path) -> None:
    text = tmp_path / "cert.pem"
    text.write_text("no certificate")

    result = run(
        *("--set", "server.port=0"),
        *("--set", f"tls.certificate_file={text}", "--set", f"tls.key_file={text}"),
    )

    assert result.returncode == 2
    assert f"tls.certificate_file {text}" in result.stderr.splitlines()[-1]
    assert "port is in use" not in result.stderr


def test_a_server_with_a_certificate_serves_only_encrypted(
    start_server: Start, tmp_path: Path
) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    server = start_server(
        f'[tls]\ncertificate_file = "{certificate}"\nkey_file = "{key}"\n[policies]\n'
    )
    credentials = grpc.ssl_channel_credentials(certificate.read_bytes())

    with grpc.secure_channel(f"localhost:{server.ready['port']}", credentials) as channel:
        status = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
    with grpc.insecure_channel(server.address) as channel, pytest.raises(grpc.RpcError):
        health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=3.0)

    assert status.status == 1


def test_the_metrics_page_has_gauges_and_second_buckets_and_no_episode(
    start_server: Start, connect: Connect
) -> None:
    import re
    import urllib.request

    server = start_server(f"[telemetry]\nprometheus_port = 0\n{ENGINES}")
    robot = Robot(connect(server), robot_id="shy-robot")
    robot.admitted()
    chunks = robot.chunks()
    chunks.observe(1)
    chunks.inbox.until("chunk")
    found = re.search(r"metrics on (http://\S+)", server.log)
    assert found is not None

    with urllib.request.urlopen(found[1] + "/metrics", timeout=10) as response:
        page = response.read().decode()

    assert "robot_episodes_active 1.0" in page
    assert 'robot_chunks_total{policy="fake"} 1.0' in page
    assert 'robot_chunk_service_seconds_count{policy="fake"} 1.0' in page
    assert 'le="0.05"' in page
    assert robot.reference.episode_id not in page
    assert "shy-robot" not in page
    chunks.close()
    robot.drop()


def test_e2_spans_of_turns_chunks_and_episodes_are_on_disk_after_sigterm(
    start_server: Start, connect: Connect, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    server = start_server(f'[telemetry]\nrun_folder = "{folder}"\n{ENGINES}')
    robot = Robot(connect(server))
    robot.admitted()
    robot.decide().rest()
    chunks = robot.chunks()
    chunks.observe(1)
    chunks.inbox.until("chunk")
    chunks.close()

    server.signal(signal.SIGTERM)
    robot.end()
    assert server.wait_for_exit() == 0

    text = (folder / "server.trace.jsonl").read_text()
    for name in ("server.episode", "server.decide", "server.chunk"):
        assert f'"name":"{name}"' in text.replace(" ", "")
