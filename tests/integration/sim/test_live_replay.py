"""Live replays against real servers whose brain counts words, over gRPC."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from robot_sdk.errors import InvalidArgumentError, ServerUnavailableError
from sim.__main__ import main
from sim.fleet.live import fleet
from sim.fleet.live.settings import LiveSettings
from sim.fleet.replay.result import ReplayResult
from sim.fleet.replay.settings import FleetPoint, ReplaySettings
from sim.fleet.workload.trace import EpisodeTrace, TurnTrace
from sim.fleet.workload.trace_file import read_traces, write_traces
from tests.fakes.word_brain import OVERHEAD_TOKENS
from tests.integration.server.harness import REPOSITORY, Client, Server, wait_until

#: 20 ms between turns.
TRACE = EpisodeTrace(
    "sorting",
    "sort",
    (TurnTrace(400, 12, env_steps=1), *(TurnTrace(50, 6, env_steps=1) for _ in range(5))),
    control_hz=50.0,
)
NUM_TURNS = len(TRACE.turns)


def configuration(pool_blocks: int, cap: int = 100, **options: float | bool) -> str:
    values = {"pool_blocks": pool_blocks, **options}
    return f"""
[server]
port = 0
roles = ["brain"]
[brain]
engine = "factory"
factory = "tests.fakes.word_brain:WordBrain"
[brain.options]
{"".join(f"{name} = {json.dumps(value)}" + chr(10) for name, value in values.items())}
[admission]
policy = "static-cap"
cap = {cap}
"""


@pytest.fixture(scope="module")
def roomy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Three robots at a time, a pool for all, and answers that call a tool."""
    text = configuration(pool_blocks=5000, cap=3, turn_s=0.02, calls_tools=True)
    server = Server(tmp_path_factory.mktemp("roomy"), text)
    yield server
    server.close()


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A pool that a quarter of the robots would fill."""
    server = Server(tmp_path_factory.mktemp("crowded"), configuration(pool_blocks=60, turn_s=0.05))
    yield server
    server.close()


def batch(num_robots: int, episodes: int = 1, duration_s: float = 60.0) -> ReplaySettings:
    return ReplaySettings.sustained(
        num_robots, episodes_per_robot=episodes, duration_s=duration_s, warm_up_s=0.0
    )


def status_of(server: Server) -> tuple[int, int]:
    """Episodes inside and at the door."""
    client = Client(server.address)
    try:
        admission = client.status().admission
    finally:
        client.close()
    return admission.active_episodes, admission.queued_episodes


def test_a_finite_batch_keeps_lengths_waits_at_the_door_and_finds_its_prefixes(
    roomy: Server,
) -> None:
    run = fleet.run(batch(5, episodes=2), LiveSettings(roomy.address), 0, traces=[TRACE])

    result = run.result
    assert result.is_partial is False
    assert run.ended_by is None
    assert result.episodes_by_robot == (2, 2, 2, 2, 2)
    assert result.turns == 10 * NUM_TURNS
    assert result.hit == 1.0
    assert run.lengths.lengths is not None
    assert run.lengths.lengths.tokens_per_word == 2.0
    assert run.lengths.lengths.later_overhead_tokens == OVERHEAD_TOKENS
    assert run.lengths.worst_prompt_tokens <= 1
    assert run.lengths.output_share == 1.0
    assert max(times.door_wait_s for times in result.episode_times) > 0.1
    assert all(len(times.turn_latencies_s) == NUM_TURNS for times in result.episode_times)
    assert max(window.num_active for window in result.windows) <= 3
    assert [window.cap for window in result.windows] == [3]
    assert result.warnings == ()
    assert ReplayResult.from_json(json.loads(json.dumps(result.to_json()))) == result
    assert status_of(roomy) == (0, 0)


def test_a_pool_that_is_too_small_loses_every_prefix_and_the_server_counts_the_same(
    crowded: Server,
) -> None:
    run = fleet.run(batch(8), LiveSettings(crowded.address), 0, traces=[TRACE])

    assert run.result.turns == 8 * NUM_TURNS
    assert run.result.hit == 0.0
    client = Client(crowded.address)
    prefix = client.status().brain.prefix
    client.close()
    # The two turns behind the first one of the episode that measures words found theirs.
    assert prefix.turns_in_window == 8 * (NUM_TURNS - 1) + 2
    assert prefix.full_prefix_hit * prefix.turns_in_window == pytest.approx(2)


def test_a_fleet_grows_and_shrinks_as_it_is_told(roomy: Server) -> None:
    settings = ReplaySettings(
        (FleetPoint(0.0, 1), FleetPoint(1.0, 3), FleetPoint(2.0, 1)), duration_s=3.0, warm_up_s=0.0
    )
    run = fleet.run(settings, LiveSettings(roomy.address), 0, traces=[TRACE])

    asked = [times.asked_s for times in run.result.episode_times]
    assert run.result.is_partial is False
    assert run.result.duration_s == pytest.approx(3.0, abs=0.5)
    assert len(run.result.episodes_by_robot) == 3
    assert min(run.result.episodes_by_robot) >= 1
    assert max(asked) > 2.0
    assert status_of(roomy) == (0, 0)


def test_the_command_leaves_table_json_picture_and_the_traces_it_sent(
    roomy: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    mix, sent = tmp_path / "mix.jsonl", tmp_path / "sent.jsonl"
    write_traces(mix, [TRACE])
    code = main(
        [
            *("replay", "--live", roomy.address, "--robots", "2", "--episodes-per-robot", "1"),
            *("--mix", str(mix), "--token-scale", "0.5", "--time-scale", "0.5"),
            *("--json", str(tmp_path / "run.json"), "--picture", str(tmp_path / "run.png")),
            *("--scaled-traces", str(sent)),
        ]
    )

    shown = capsys.readouterr()
    assert code == 0, shown.err
    assert f"live at {roomy.address}: word word-1" in shown.out
    assert "requests/s" in shown.out
    assert "2 tokens a word" in shown.out
    content = json.loads((tmp_path / "run.json").read_text())
    assert content["partial"] is False
    assert content["live"]["token_scale"] == 0.5
    assert content["settings"]["workload"]["mix"] == str(mix)
    assert not {"admission", "engine", "cost"} & set(content["settings"])
    assert content["live"]["runs"][0]["policy"] == "static-cap"
    assert content["live"]["runs"][0]["pool_blocks"] == 5000
    assert content["results"][0]["turns"] == 2 * NUM_TURNS
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")
    (trace,) = read_traces(sent)
    assert [turn.new_tokens for turn in trace.turns] == [200, 25, 25, 25, 25, 25]
    assert trace.gap_s(0, uses_wall=False) == pytest.approx(0.01)


def test_a_trace_that_does_not_fit_the_servers_model_is_refused_before_the_run(
    roomy: Server,
) -> None:
    long = EpisodeTrace("long", "sort", (TurnTrace(60_000, 10),))
    with pytest.raises(InvalidArgumentError, match="--token-scale"):
        fleet.run(batch(1), LiveSettings(roomy.address), 0, traces=[long])
    assert status_of(roomy) == (0, 0)


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_all_episodes_and_keeps_a_partial_result(
    roomy: Server, tmp_path: Path, stop: signal.Signals
) -> None:
    file, mix = tmp_path / "run.json", tmp_path / "mix.jsonl"
    write_traces(mix, [TRACE])
    # Whoever runs the tests in the background may have them ignore the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "sim", "replay", "--live", roomy.address, "--robots", "5"),
            *("--minutes", "10", "--mix", str(mix), "--json", str(file)),
        ],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    signal.signal(signal.SIGINT, before)
    try:
        wait_until(lambda: status_of(roomy) == (3, 2))
        os.kill(process.pid, stop)
        if stop == signal.SIGTERM:
            os.kill(process.pid, stop)  # some who stop programs send it twice
        _, errors = process.communicate(timeout=30)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()

    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    assert "interrupted" in errors
    assert status_of(roomy) == (0, 0)
    content = json.loads(file.read_text())
    assert content["partial"] is True
    assert content["results"][0]["is_partial"] is True


def test_whoever_interrupts_the_ending_as_well_still_gets_what_was_measured(
    roomy: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    close = fleet.LiveFleet._close

    def interrupted(self: fleet.LiveFleet) -> None:
        close(self)
        raise KeyboardInterrupt

    def interrupt(progress: fleet.LiveProgress) -> None:
        if progress.turns > 10:
            raise KeyboardInterrupt

    monkeypatch.setattr(fleet.LiveFleet, "_close", interrupted)
    settings = ReplaySettings.sustained(3, duration_s=60.0, warm_up_s=0.0)
    run = fleet.run(settings, LiveSettings(roomy.address), 0, traces=[TRACE], on_progress=interrupt)
    assert run.result.is_partial is True
    assert run.result.turns > 10


@pytest.mark.faultinjection
def test_a_server_that_goes_away_ends_the_run_with_a_reason_and_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet, "_GONE_AFTER_S", 1.0)
    server = Server(tmp_path, configuration(pool_blocks=5000, cap=3))

    def kill(progress: fleet.LiveProgress) -> None:
        if progress.turns > 10:
            server.process.kill()

    try:
        settings = ReplaySettings.sustained(5, duration_s=60.0, warm_up_s=0.0)
        run = fleet.run(settings, LiveSettings(server.address), 0, traces=[TRACE], on_progress=kill)
    finally:
        server.close()

    assert run.result.is_partial is True
    assert run.ended_by is not None
    assert run.result.turns > 10
    # The silence behind its end is not part of what was measured.
    assert run.result.duration_s < 10.0


def test_a_brain_that_counts_no_tokens_is_said_to(tmp_path: Path) -> None:
    text = """
[server]
port = 0
roles = ["brain"]
[brain]
engine = "factory"
factory = "tests.fakes.scripted:ScriptedBrain"
[brain.options]
calls = [["drive", "{}"]]
"""
    server = Server(tmp_path, text)
    try:
        run = fleet.run(batch(2), LiveSettings(server.address), 0, traces=[TRACE])
    finally:
        server.close()
    assert run.result.turns == 2 * NUM_TURNS
    assert run.result.hit is None
    assert any("no hit rate" in text for text in run.result.warnings)


def test_nobody_at_the_address_is_an_error_that_names_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connect = fleet.connect
    monkeypatch.setattr(
        fleet,
        "connect",
        lambda *args, **options: connect(*args, **options, connect_timeout_s=0.2),
    )
    with pytest.raises(ServerUnavailableError, match=r"127\.0\.0\.1:1"):
        fleet.run(batch(1), LiveSettings("127.0.0.1:1"), 0, traces=[TRACE])
