"""`python -m sim run` as a user runs it: real server, real simulator, real gRPC."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from robot_sdk.clock import SYSTEM_CLOCK
from robot_sdk.interpreter import python_command
from server.launch import watcher

pytest.importorskip("mujoco", reason="the simulator is not installed")

pytestmark = [pytest.mark.sim, pytest.mark.timeout(240)]

ROOT = Path(__file__).parents[3]


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "sim", "run", *arguments]


def environment(home: Path) -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "HOME": str(home)}


def run(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command("--run-folder", str(tmp_path / "run"), *arguments),
        cwd=ROOT,
        env=environment(tmp_path),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def result(tmp_path: Path) -> dict[str, Any]:
    return json.loads((tmp_path / "run" / "summary.json").read_text())


@pytest.fixture
def started(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A run of one episode that takes minutes, because every turn takes a minute."""
    process = subprocess.Popen(
        command("--run-folder", str(tmp_path / "run"), "--tasks", "0", "--brain-delay-s", "60"),
        cwd=ROOT,
        env=environment(tmp_path),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    yield process
    process.kill()
    process.communicate()


def runs(pid: str) -> bool:
    try:
        return ") Z" not in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def command_line(pid: str) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()


def threads(pid: str) -> str:
    """Name, state and kernel function of every thread, for a failure's message."""
    lines = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        status = (task / "status").read_text().splitlines()
        lines.append(f"{status[0]} {status[2]} {(task / 'wchan').read_text()}")
    return "\n".join(lines)


def wait_admitted(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert any("admitted" in line for line in process.stdout)


def test_f4_an_episode_succeeds_by_the_policy_s_grasp_with_no_stdin_and_an_empty_home(
    tmp_path: Path,
) -> None:
    done = run(tmp_path, "--tasks", "0", "--inits", "0")

    assert done.returncode == 0, done.stderr
    written = result(tmp_path)
    (episode,) = written["episodes"]
    assert episode["success"], episode
    assert [grasp["actor"] for grasp in episode["grasps"]] == ["policy"]
    assert 0.1 < episode["policy_share"] < 0.9
    assert episode["starved_ticks"] == episode["start_wait_ticks"] == 0
    assert episode["clocks_s"]["brain_latency"]["count"] == episode["brain_turns"] >= 5
    assert written["run"]["complete"]
    assert written["run"]["server"]["policies"][0]["stand_in"]
    assert {path.name for path in (tmp_path / "run").glob("*.trace.jsonl")} == {
        "robot-0.trace.jsonl",
        "server.trace.jsonl",
    }


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--suite", "libero_objekt_swap"], "did you mean 'libero_object_swap'"),
        (["--tasks", "0-10"], "0 to 9"),
        (["--inits", "50"], "0 to 49"),
        (["--robots", "0"], "--robots"),
        (["--server", "127.0.0.1:1", "--cap", "2"], "settings of the server"),
    ],
)
def test_wrong_arguments_end_with_one_line_that_says_what_is_allowed(
    tmp_path: Path, arguments: list[str], named: str
) -> None:
    done = run(tmp_path, *arguments)

    assert done.returncode == 2
    assert named in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_result_file_that_cannot_be_written_ends_the_run_before_it_begins(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").write_text("")

    done = run(tmp_path, "--tasks", "0", "--json", str(tmp_path / "file" / "summary.json"))

    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "cannot write the results" in done.stderr


def test_an_absent_server_is_named_and_no_episode_is_lost_from_the_file(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        target = f"127.0.0.1:{free.getsockname()[1]}"

    done = run(tmp_path, "--tasks", "0-1", "--server", target)

    assert done.returncode == 1
    assert target in done.stderr
    assert [e["reason"] for e in result(tmp_path)["episodes"]] == ["not_finished"] * 2


def test_a_failed_episode_is_a_result_and_no_error(tmp_path: Path) -> None:
    done = run(tmp_path, "--tasks", "0", "--max-steps", "5")

    assert done.returncode == 0, done.stderr
    (episode,) = result(tmp_path)["episodes"]
    assert (episode["outcome"], episode["reason"]) == ("failure", "max_env_steps")
    assert "0 of 1 episodes succeeded" in done.stdout
    assert f"{python_command(folder=ROOT)} -m robot_sdk trace" in done.stdout


@pytest.mark.faultinjection
def test_an_episode_whose_robot_dies_has_no_verdict_and_the_run_ends_with_an_error(
    tmp_path: Path, started: subprocess.Popen[str]
) -> None:
    wait_admitted(started)
    server = json.loads((tmp_path / "run" / "server.ready.json").read_text())["pid"]
    children = Path(f"/proc/{started.pid}/task/{started.pid}/children").read_text().split()
    (robot,) = (int(child) for child in children if int(child) != server)

    os.kill(robot, signal.SIGKILL)
    _, errors = started.communicate(timeout=60)

    assert started.returncode == 1, errors
    written = result(tmp_path)
    assert written["episodes"][0]["reason"] == "robot_crashed"
    assert written["run"]["summary"]["without_verdict"] == 1


@pytest.mark.faultinjection
def test_sigterm_keeps_the_file_and_leaves_no_process_behind(
    tmp_path: Path, started: subprocess.Popen[str]
) -> None:
    wait_admitted(started)
    ready = json.loads((tmp_path / "run" / "server.ready.json").read_text())

    started.send_signal(signal.SIGTERM)
    _, errors = started.communicate(timeout=60)

    assert started.returncode == 130, errors
    assert result(tmp_path)["episodes"][0]["reason"] == "not_finished"
    with pytest.raises(ProcessLookupError):
        os.kill(ready["pid"], 0)


@pytest.mark.faultinjection
def test_a_killed_run_takes_its_server_and_its_robots_with_it(
    tmp_path: Path, started: subprocess.Popen[str]
) -> None:
    wait_admitted(started)
    children = Path(f"/proc/{started.pid}/task/{started.pid}/children").read_text().split()
    commands = {child: command_line(child) for child in children}
    assert len(commands) == 2

    started.kill()
    started.wait()

    deadline_s = SYSTEM_CLOCK.now_s() + watcher.GRACE_S + 10.0
    while left := [child for child in commands if runs(child)]:
        assert SYSTEM_CLOCK.now_s() < deadline_s, "\n".join(
            [f"{child} runs: {commands[child]}\n{threads(child)}" for child in left]
            + [f"{log.name}: {log.read_text()[-2000:]}" for log in (tmp_path / "run").glob("*.log")]
        )
        SYSTEM_CLOCK.sleep_until(SYSTEM_CLOCK.now_s() + 0.1)
    # More than one would stop it before its robots have said goodbye.
    log = (tmp_path / "run" / "server.log").read_text()
    assert log.count("SIGTERM") == 1, log


@pytest.mark.faultinjection
def test_a_killed_server_ends_the_episode_with_a_reason_and_the_run_with_an_error(
    tmp_path: Path, started: subprocess.Popen[str]
) -> None:
    wait_admitted(started)
    ready = json.loads((tmp_path / "run" / "server.ready.json").read_text())

    os.kill(ready["pid"], signal.SIGKILL)
    _, errors = started.communicate(timeout=150)

    assert started.returncode == 1, errors
    (episode,) = result(tmp_path)["episodes"]
    assert (episode["success"], episode["outcome"]) == (False, "aborted")
    assert episode["reason"] in ("episode_lost", "brain_error")
