"""`python -m server plan` and a replay of the same box must say the same of its brain tier."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from server.__main__ import main
from sim.fleet.replay import replay
from sim.fleet.replay.result import ReplayResult
from sim.fleet.replay.settings import (
    AdmissionChoice,
    ReplaySettings,
    WorkloadChoice,
)
from sim.paper.cases.envelope import ENGINE, mean_context_tokens
from sim.paper.replay_rows import HEALTHY_HIT

pytestmark = pytest.mark.vllm

#: Pool blocks, mix of episodes, and the mean context of those that are inside together. Small
#: boxes, so that a replay takes seconds.
BOXES = ((1068, "short", 63_000), (1068, "long", 98_000), (2135, "all", 77_000))


def planned_cap(capsys: pytest.CaptureFixture[str], pool_blocks: int, context: float) -> int:
    arguments = ["--pool-blocks", str(pool_blocks), "--block-tokens", "784"]
    assert main(["plan", *arguments, "--mean-context", str(context), "--json", "-"]) == 0
    lines = json.loads(capsys.readouterr().out)["brain"]
    return int(next(line["value"] for line in lines if line["name"] == "starting cap"))


def replayed(pool_blocks: int, mix: str, cap: int) -> ReplayResult:
    settings = ReplaySettings.sustained(
        cap + 4,
        admission=AdmissionChoice("static-cap", {"cap": cap}),
        workload=WorkloadChoice(mix),
        engine=replace(ENGINE, pool_blocks=pool_blocks),
        duration_s=720.0,
        warm_up_s=240.0,
    )
    return replay.run(settings, seed=0)


@pytest.mark.parametrize(("pool_blocks", "mix", "context_tokens"), BOXES)
def test_the_planned_cap_holds_and_half_as_much_again_does_not(
    capsys: pytest.CaptureFixture[str], pool_blocks: int, mix: str, context_tokens: int
) -> None:
    cap = planned_cap(capsys, pool_blocks, context_tokens)
    held = replayed(pool_blocks, mix, cap)
    lost = replayed(pool_blocks, mix, round(1.5 * cap))
    assert held.hit_after_warm_up is not None
    assert held.hit_after_warm_up >= HEALTHY_HIT
    assert lost.hit_after_warm_up is not None
    assert lost.hit_after_warm_up < HEALTHY_HIT
    # What a server would have measured leads to the same cap, give or take one.
    measured = mean_context_tokens(held, replace(ENGINE, pool_blocks=pool_blocks))
    assert abs(planned_cap(capsys, pool_blocks, measured) - cap) <= 1
