"""`python -m server plan`: from figures, from a server, and from what cannot be planned with."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path

import grpc
import pytest

from robot_sdk.api.v1 import fleet_pb2, fleet_pb2_grpc
from server.__main__ import main
from server.core.batching.latency_table import STUDY_TABLE

STUDY = ("--pool-blocks", "4270", "--block-tokens", "784", "--mean-context", "95000")


class _Fleet(fleet_pb2_grpc.FleetServiceServicer):
    """A server whose status the test writes."""

    def __init__(self) -> None:
        self.status = fleet_pb2.FleetStatus()
        self.token = ""

    def Status(self, request, context):
        self.token = dict(context.invocation_metadata()).get("authorization", "")
        assert request.include_episodes
        return fleet_pb2.StatusResponse(status=self.status)


@pytest.fixture
def fleet() -> Iterator[tuple[_Fleet, str]]:
    server = grpc.server(futures.ThreadPoolExecutor(1))
    servicer = _Fleet()
    fleet_pb2_grpc.add_FleetServiceServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield servicer, f"127.0.0.1:{port}"
    server.stop(None).wait(10)


def plan(capsys, *arguments: str) -> dict:
    assert main(["plan", *arguments, "--json", "-"]) == 0
    return json.loads(capsys.readouterr().out)


def refused(capsys, *arguments: str) -> str:
    """The error of a plan that must not be made."""
    try:
        code = main(["plan", *arguments])
    except SystemExit as usage:  # argparse
        code = usage.code
    assert code == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "Traceback" not in shown.err
    return shown.err


def values(lines: list[dict]) -> dict[str, object]:
    return {line["name"]: line["value"] for line in lines}


def test_the_study_s_box_prints_its_cliff_its_cap_and_what_binds(capsys):
    assert main(["plan", *STUDY, "--deadline-hz", "20"]) == 0
    shown = capsys.readouterr().out
    assert "29.95 sessions" in shown
    assert "20 episodes" in shown
    assert "0.85 x 3,347,680 / 95,000" in shown
    assert shown.rstrip().splitlines()[-4].split() == ["binding", "tier", "action"]


@pytest.mark.parametrize(
    ("option", "shown_groups", "said"),
    [
        ((), "3 state groups", "state groups assumed to be Qwen3.6-27B's"),
        (("--state-groups", "0"), "0 state groups", "state groups given"),
    ],
)
def test_the_plan_says_whether_its_state_groups_are_assumed(capsys, option, shown_groups, said):
    assert main(["plan", *STUDY, *option]) == 0
    pool_line = capsys.readouterr().out.splitlines()[0]
    assert shown_groups in pool_line
    assert said in pool_line


def test_json_goes_to_a_file_beside_the_table(tmp_path: Path, capsys):
    target = tmp_path / "plan.json"
    assert main(["plan", *STUDY, "--json", str(target)]) == 0
    assert "29.95 sessions" in capsys.readouterr().out
    content = json.loads(target.read_text())
    assert content["format"] == "robot-capacity-plan/1"
    assert values(content["brain"])["starting cap"] == 20


def test_a_measured_latency_table_takes_the_place_of_the_study_s(tmp_path: Path, capsys):
    content = STUDY_TABLE.to_json()
    content["rows"] = [{"batch": 1, "p50_s": 0.02}, {"batch": 32, "p50_s": 0.1}]
    (tmp_path / "table.json").write_text(json.dumps(content))
    made = plan(
        capsys, *STUDY, "--deadline-hz", "20", "--latency-table", str(tmp_path / "table.json")
    )
    assert values(made["action"])["robots, paced, rows by control step"] == 32
    assert made["binds"] == "brain"


def test_pool_and_contexts_come_from_a_server_that_counts_them(fleet, tmp_path, capsys):
    servicer, target = fleet
    servicer.status.brain.engine = "vllm"
    servicer.status.brain.load.pool_blocks = 4396
    servicer.status.brain.load.block_tokens = 784
    for tokens in (90_000, 110_000):
        servicer.status.episodes.add(context_tokens=tokens)
    servicer.status.episodes.add()  # waits at the door: no turn counted, and not a context of 0
    (tmp_path / "token").write_text("secret\n")

    made = plan(capsys, "--from-server", target, "--token-file", str(tmp_path / "token"))

    assert made["inputs"]["pool_blocks"] == 4396
    assert made["inputs"]["mean_context_tokens"] == 100_000
    assert "mean of 2 episodes" in made["inputs"]["context_source"]
    assert servicer.token == "Bearer secret"


def test_the_ledger_s_mean_goes_before_the_episodes_and_a_given_figure_before_both(fleet, capsys):
    servicer, target = fleet
    servicer.status.brain.load.pool_blocks = 4396
    servicer.status.brain.load.block_tokens = 784
    servicer.status.brain.prefix.mean_context_tokens = 80_000
    servicer.status.episodes.add(context_tokens=1)
    assert plan(capsys, "--from-server", target)["inputs"]["mean_context_tokens"] == 80_000
    given = plan(capsys, "--from-server", target, "--mean-context", "50000")
    assert given["inputs"]["mean_context_tokens"] == 50_000


def test_latencies_and_replicas_come_from_the_server_s_policy(fleet, capsys):
    servicer, target = fleet
    policy = servicer.status.policies.add(name="pi05", workers=2)
    policy.latencies.add(batch_size=8, latency_s=0.2, samples=10)
    policy.latencies.add(batch_size=1, latency_s=0.1, samples=30)
    made = plan(capsys, *STUDY, "--from-server", target, "--deadline-hz", "20")
    assert made["inputs"]["action"]["gpus"] == 2
    assert made["inputs"]["action"]["policy"] == "pi05"
    assert values(made["action"])["robots, unpaced"] == 2 * 2


def test_several_policies_must_be_told_apart(fleet, capsys):
    servicer, target = fleet
    servicer.status.policies.add(name="left", workers=1)
    servicer.status.policies.add(name="right", workers=1)
    assert "left, right" in refused(capsys, *STUDY, "--from-server", target)
    error = refused(capsys, *STUDY, "--from-server", target, "--policy", "middle")
    assert "middle" in error
    assert "left, right" in error


def test_a_server_without_a_kv_pool_is_an_error_that_says_what_to_do(fleet, capsys):
    servicer, target = fleet
    servicer.status.brain.engine = "demo-planner"
    error = refused(capsys, "--from-server", target)
    assert "demo-planner" in error
    assert 'brain.engine = "vllm"' in error
    assert "--pool-blocks" in error


def test_a_server_without_episodes_cannot_tell_a_context(fleet, capsys):
    servicer, target = fleet
    servicer.status.brain.load.pool_blocks = 4396
    servicer.status.brain.load.block_tokens = 784
    assert "--mean-context" in refused(capsys, "--from-server", target)


def test_a_real_server_with_the_demo_planner_has_no_pool_to_plan_with(start_server, capsys):
    error = refused(capsys, "--from-server", start_server().address)
    assert "no KV pool" in error


def test_a_server_that_is_not_there_exits_with_1_and_its_address(capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: nobody else gets this port
        target = f"127.0.0.1:{taken.getsockname()[1]}"
        assert main(["plan", "--from-server", target]) == 1
    assert target in capsys.readouterr().err


def test_a_host_that_does_not_exist_exits_with_1_and_its_name(capsys):
    assert main(["plan", "--from-server", "no-such-host.invalid"]) == 1
    assert "no-such-host.invalid" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--pool-blocks", "--block-tokens", "--mean-context"])
@pytest.mark.parametrize("value", ["0", "-5", "nan", "inf", "ten", "1e300", "9" * 30])
def test_a_figure_that_cannot_be_is_refused_by_name(capsys, option, value):
    given = dict(zip(STUDY[::2], STUDY[1::2], strict=True))
    arguments = [f"{name}={text}" for name, text in {**given, option: value}.items()]
    error = refused(capsys, *arguments)
    assert option in error or option.lstrip("-").replace("-", " ") in error


@pytest.mark.parametrize(
    "arguments",
    [
        ("--deadline-hz", "0"),
        ("--deadline-hz", "nan"),
        ("--deadline-hz=-20",),
        ("--deadline-hz", "20", "--gpus", "0"),
        ("--deadline-hz", "20", "--horizon", "3"),
        ("--deadline-hz", "20", "--executed-steps", "0"),
        ("--deadline-hz", "20", "--policy-share", "0"),
        ("--deadline-hz", "20", "--policy-share", "1.5"),
        ("--state-groups=-1",),
        ("--step-tokens", "100"),
        ("--turn-seconds", "0"),
        ("--executed-steps", "3"),
        ("--horizon", "20"),
        ("--token-file", "nowhere"),
    ],
)
def test_other_figures_are_checked_too(capsys, arguments):
    assert "error:" in refused(capsys, *STUDY, *arguments)


def test_the_action_tier_alone_needs_no_pool(capsys):
    made = plan(capsys, "--deadline-hz", "20", "--gpus", "2")
    assert values(made["action"])["robots, paced, rows by control step"] == 14
    assert (made["brain"], made["together"], made["binds"]) == ([], [], None)


def test_a_server_with_policies_alone_is_planned_by_its_action_tier(fleet, capsys):
    servicer, target = fleet
    policy = servicer.status.policies.add(name="pi05", workers=2)
    policy.latencies.add(batch_size=1, latency_s=0.1, samples=30)
    made = plan(capsys, "--from-server", target, "--deadline-hz", "20")
    assert made["inputs"]["action"]["gpus"] == 2
    assert made["brain"] == []


def test_with_half_a_pool_or_nothing_at_all_what_is_missing_is_named(capsys):
    assert "--pool-blocks" in refused(capsys)
    assert "--pool-blocks" in refused(capsys, "--deadline-hz", "20", "--mean-context", "95000")


@pytest.mark.parametrize("missing", ["--pool-blocks", "--block-tokens", "--mean-context"])
def test_what_is_missing_is_named(capsys, missing):
    given = dict(zip(STUDY[::2], STUDY[1::2], strict=True))
    del given[missing]
    assert missing in refused(capsys, *(part for pair in given.items() for part in pair))


@pytest.mark.parametrize(
    "content",
    ["", "{}", "[]", '{"format": "robot-latency-table/1"}', "\xff", "[" * 100_000, "9" * 5000],
    ids=lambda content: content[:10],
)
def test_a_latency_table_that_is_none_is_refused_with_its_path(tmp_path: Path, capsys, content):
    path = tmp_path / "table.json"
    path.write_bytes(content.encode("latin-1"))
    error = refused(capsys, *STUDY, "--deadline-hz", "20", "--latency-table", str(path))
    assert str(path) in error
    assert "profile-policy" in error
