"""The same traces live, on vLLM with a tiny model, and in virtual time, on its scheduler alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from server.capacity.cliff import tiny_server
from server.launch.server_process import ServerProcess
from sim.fleet.live import fleet
from sim.fleet.live.settings import LiveSettings
from sim.fleet.replay.result import ReplayResult
from sim.fleet.replay.runner import Job, run_many
from sim.fleet.replay.settings import EngineChoice, ReplaySettings, WorkloadChoice
from sim.fleet.workload.trace import EpisodeTrace, TurnTrace
from sim.fleet.workload.trace_file import write_traces

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600)]

#: Contexts are 13 blocks of 32 tokens at their end: three fit into the pool. Of six, each has been
#: pushed out by the others before its next turn.
POOL_BLOCKS, STEP_TOKENS = 44, 2048
TRACE = EpisodeTrace(
    "sorting",
    "sort",
    (TurnTrace(300, 4, env_steps=10), *(TurnTrace(20, 4, env_steps=10) for _ in range(4))),
)
FITS, DOES_NOT_FIT = 3, 6


@pytest.fixture(scope="module")
def address(text_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    settings = [
        *tiny_server.settings(text_model),
        'admission.policy="unlimited"',
        f"vllm.num_gpu_blocks_override={POOL_BLOCKS}",
        "vllm.max_model_len=1024",
    ]
    folder = tmp_path_factory.mktemp("server")
    with ServerProcess(
        settings, folder, tiny_server.ENVIRONMENT, tiny_server.START_TIMEOUT_S
    ) as server:
        yield server.target


@pytest.fixture(scope="module")
def workload(tmp_path_factory: pytest.TempPathFactory) -> WorkloadChoice:
    file = tmp_path_factory.mktemp("traces") / "traces.jsonl"
    write_traces(file, [TRACE])
    return WorkloadChoice(str(file), order="suite")


@pytest.fixture(scope="module")
def virtual(workload: WorkloadChoice) -> dict[int, ReplayResult]:
    """By the number of robots."""
    engine = EngineChoice(
        pool_blocks=POOL_BLOCKS,
        block_tokens=tiny_server.BLOCK_TOKENS,
        num_state_groups=0,
        step_tokens=STEP_TOKENS,
        retention_tokens=None,
    )
    jobs = [Job(batch(number, workload, engine=engine), 0) for number in (FITS, DOES_NOT_FIT)]
    results = list(run_many(jobs, processes=1))
    return dict(zip((FITS, DOES_NOT_FIT), results, strict=True))


def batch(
    num_robots: int, workload: WorkloadChoice, engine: EngineChoice | None = None
) -> ReplaySettings:
    return ReplaySettings.sustained(
        num_robots,
        workload=workload,
        engine=engine or EngineChoice(),
        episodes_per_robot=1,
        duration_s=120.0,
        warm_up_s=0.0,
    )


@pytest.mark.parametrize(("num_robots", "hit"), [(FITS, 1.0), (DOES_NOT_FIT, 0.0)])
def test_a_live_replay_finds_the_prefixes_that_the_virtual_one_finds(
    address: str,
    workload: WorkloadChoice,
    virtual: dict[int, ReplayResult],
    num_robots: int,
    hit: float,
) -> None:
    live = fleet.run(batch(num_robots, workload), LiveSettings(address), 0)

    assert live.ended_by is None
    assert live.seen.gauges.pool_blocks == POOL_BLOCKS
    assert live.seen.gauges.block_tokens == tiny_server.BLOCK_TOKENS
    # The model's two tokens a word can miss a length by one; where an answer ends itself, by the
    # token that ended it, too.
    assert live.lengths.worst_prompt_tokens <= 3
    assert live.result.episodes_by_robot == virtual[num_robots].episodes_by_robot
    assert live.result.turns == virtual[num_robots].turns == num_robots * len(TRACE.turns)
    assert live.result.hit == virtual[num_robots].hit == hit
