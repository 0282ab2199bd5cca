"""What stands between a robot and an episode: capacity, drain, tokens, certificates, absence."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import threading
from pathlib import Path

import pytest

from robot_sdk.api.v1 import fleet_pb2
from robot_sdk.channel import TlsConfig
from robot_sdk.client import connect
from robot_sdk.clock import SYSTEM_CLOCK
from robot_sdk.errors import (
    DrainingError,
    EpisodeEndedError,
    EstopError,
    OverloadedError,
    ServerUnavailableError,
    UnauthenticatedError,
)
from robot_sdk.messages import Message
from tests.integration.end_to_end.conftest import Start
from tests.integration.end_to_end.harness import (
    DRIVE_ALWAYS,
    FINISH,
    EpisodeThread,
    LoggingRobot,
    config,
    sleep,
    wait_for_port,
)
from tests.integration.server.harness import Client as RawClient
from tests.integration.server.harness import wait_until


def test_overload_queues_at_the_door_and_leaves_the_running_episode_alone(
    start_server: Start,
) -> None:
    server = start_server(config([DRIVE_ALWAYS, FINISH], cap=1, max_waiting=2))
    with connect(server.address) as client:
        first = EpisodeThread(client, LoggingRobot())
        first.wait_for(lambda state: state.acted_steps >= 5)
        before = first.robot.state
        waiting = [EpisodeThread(client, LoggingRobot()) for _ in range(2)]
        wait_until(lambda: sorted(robot.queued[-1] for robot in waiting if robot.queued) == [1, 2])
        for _ in range(20):
            with pytest.raises(OverloadedError, match="2"):
                client.episode(task="go", robot_id="one too many").__enter__()
        first.wait_for(lambda state: state.acted_steps >= before.acted_steps + 20)
        assert [robot.tools for robot in waiting] == [None, None]

        for _ in range(3):
            inside = next(r for r in (first, *waiting) if r.is_running and r.tools is not None)
            assert inside.tools is not None
            inside.tools.enough.set()
            assert inside.result().success
            wait_until(
                lambda: (
                    all(not r.is_running for r in (first, *waiting))
                    or any(r.is_running and r.tools is not None for r in (first, *waiting))
                )
            )
    first.robot.assert_every_action_was_of_its_step()


@pytest.mark.faultinjection
def test_a_drain_lets_the_running_episode_finish_and_takes_no_other(start_server: Start) -> None:
    server = start_server(config([DRIVE_ALWAYS, FINISH]))
    with connect(server.address) as client:
        episode = EpisodeThread(client, LoggingRobot())
        episode.wait_for(lambda state: state.acted_steps >= 5)
        assert episode.tools is not None
        assert episode.tools.running.episode.draining is None

        server.signal(signal.SIGTERM)
        running = episode.tools.running.episode
        wait_until(lambda: running.draining is not None)
        assert running.draining is not None
        assert running.draining.deadline_s > 0
        with pytest.raises(DrainingError):
            client.episode(task="go", robot_id="late").__enter__()
        acted = episode.robot.state.acted_steps
        episode.wait_for(lambda state: state.acted_steps >= acted + 10)
        episode.tools.enough.set()

        assert episode.result().success
        assert server.wait_for_exit() == 0


@pytest.mark.faultinjection
def test_a_drain_whose_time_is_up_ends_the_episode_with_its_reason(start_server: Start) -> None:
    server = start_server("[server]\ndrain_deadline_s = 1.0\n" + config([DRIVE_ALWAYS]))
    with connect(server.address) as client:
        episode = EpisodeThread(client, LoggingRobot())
        episode.wait_for(lambda state: state.acted_steps >= 5)
        server.signal(signal.SIGTERM)

        result = episode.result()

    assert (result.outcome, result.reason) == ("aborted", "episode_lost")
    assert "shut down" in result.detail
    assert result.acted_steps == len(episode.robot.executed) >= 5
    assert server.wait_for_exit() == 0


def test_a_wrong_token_is_refused_at_once_and_shown_nowhere(
    start_server: Start, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "tokens").write_text("s3cret-robot acme robot\n")
    server = start_server(config(more=f'[auth]\ntokens_file = "{tmp_path / "tokens"}"\n'))

    for token in (None, "wrong", "s3cret-robot2"):
        with pytest.raises(UnauthenticatedError) as caught:
            connect(server.address, token=token, connect_timeout_s=60.0)
        assert "s3cret" not in str(caught.value)
    with connect(server.address, token="s3cret-robot") as client:
        assert EpisodeThread(client, LoggingRobot()).result().success

    assert "s3cret" not in caplog.text + server.log


@pytest.fixture
def expired_certificate(tmp_path: Path) -> Path:
    """A folder with ca.pem and an expired server.pem, server.key that it has signed."""
    if shutil.which("openssl") is None:
        pytest.skip("needs the openssl program")
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    (tmp_path / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    for command in (
        ("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=ca"),
        ("req", *key, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=localhost"),
        (
            *("x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key"),
            *("-CAcreateserial", "-out", "server.pem", "-days", "-1", "-extfile", "names"),
        ),
    ):
        subprocess.run(["openssl", *command], cwd=tmp_path, check=True, capture_output=True)
    return tmp_path


def test_an_expired_certificate_is_named_as_such(
    start_server: Start, expired_certificate: Path
) -> None:
    server = start_server(
        config(
            more=f'[tls]\ncertificate_file = "{expired_certificate / "server.pem"}"\n'
            f'key_file = "{expired_certificate / "server.key"}"\n'
        )
    )

    with pytest.raises(UnauthenticatedError, match="expired"):
        connect(server.address, tls=TlsConfig(ca_file=expired_certificate / "ca.pem"))


def test_a_server_that_is_absent_is_one_error_that_says_what_to_do() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ServerUnavailableError, match=r"no answer.*python -m server"):
            connect(address, connect_timeout_s=0.5)


def test_a_server_that_starts_late_is_waited_for(start_server: Start) -> None:
    with socket.socket() as finder:
        finder.bind(("127.0.0.1", 0))
        port = finder.getsockname()[1]
    found: list[str] = []

    def use() -> None:
        with connect(f"127.0.0.1:{port}", connect_timeout_s=60.0) as client:
            found.append(EpisodeThread(client, LoggingRobot()).result().outcome)

    robot = threading.Thread(target=use)
    robot.start()
    sleep(1.0)
    start_server(config(), port=port, wait=False)
    wait_for_port(port)
    robot.join(60.0)

    assert found == ["success"]


def test_c3_after_the_end_nothing_reaches_the_server_any_more(start_server: Start) -> None:
    server = start_server(config())
    with connect(server.address) as client:
        with client.episode(task="go", robot_id="robot", policies=("fake",)) as episode:
            pass
        for call in (
            lambda: episode.decide([Message.of_text("user", "go")]),
            lambda: episode.open_policy("fake", "go", ["observation/state"]),
        ):
            with pytest.raises(EpisodeEndedError):
                call()
        episode.end("success")
        raw = RawClient(server.address)
        assert raw.status().admission.active_episodes == 0
        raw.close()
        with client.episode(task="go", robot_id="robot") as other:
            assert other.id != episode.id


def test_c5_an_emergency_stop_ends_the_episode_with_at_most_one_more_action(
    start_server: Start,
) -> None:
    server = start_server(config([DRIVE_ALWAYS, FINISH], policy_options={"horizon": 50}))
    with connect(server.address) as client:
        episode = EpisodeThread(client, LoggingRobot())
        episode.wait_for(lambda state: state.acted_steps >= 10)
        assert episode.tools is not None
        episode.tools.running.estop("somebody stands in the way")
        acted = len(episode.robot.actions)

        result = episode.result()

    assert len(episode.robot.actions) <= acted + 1
    assert (result.outcome, result.reason) == ("aborted", "estop")
    assert isinstance(result.error, EstopError)
    assert "somebody stands in the way" in result.detail


def test_a8_an_episode_that_an_operator_ends_stops_its_robot_at_once(start_server: Start) -> None:
    server = start_server(config([DRIVE_ALWAYS], delays_s=[60.0]))
    operator = RawClient(server.address)
    with connect(server.address) as client:
        episode = EpisodeThread(client, LoggingRobot())
        wait_until(lambda: operator.status().brain.running_turns == 1)
        (shown,) = operator.status().episodes
        asked_s = SYSTEM_CLOCK.now_s()
        operator.fleet.EndEpisode(
            fleet_pb2.EndEpisodeRequest(episode_id=shown.episode_id, reason="maintenance")
        )

        result = episode.result()

    assert (result.outcome, result.reason) == ("aborted", "episode_lost")
    assert "maintenance" in result.detail
    assert episode.ended_s - asked_s < 5.0  # the turn itself would have taken a minute
    operator.close()
