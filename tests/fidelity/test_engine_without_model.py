"""The engine without a model decides as vLLM does that sees every turn in every step."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from robot_sdk.errors import InvalidArgumentError
from server.capacity.engine import EngineSettings, SchedulerOnlyEngine, SessionBlocks, Turn, library
from server.core.capacity import KvPool
from tests.fidelity.stretches import Comparison, compare

pytest.importorskip("vllm", reason="vLLM is not installed; see `make setup`")

pytestmark = [
    pytest.mark.vllm,
    # vLLM and what it imports warn about themselves.
    pytest.mark.filterwarnings("ignore"),
]

REPOSITORY = Path(__file__).parents[2]
STUDY_FOLDER = REPOSITORY / "out" / "study-engine"


def check(comparison: Comparison) -> None:
    assert comparison.differences == []
    # Otherwise the fleets would not have tried what the engine treats apart.
    assert comparison.num_preemptions >= 5
    assert comparison.shown_share < 0.6


def test_random_fleets_end_alike_with_the_same_free_blocks_in_the_same_order():
    check(compare(40, library.load(), (None, 0, 64)))


@pytest.mark.skipif(not STUDY_FOLDER.is_dir(), reason="the study's vLLM: `make study-engine`")
@pytest.mark.timeout(300)
def test_they_do_so_on_the_study_s_version_too():
    ran = subprocess.run(
        [sys.executable, "-m", "tests.fidelity.stretches", str(STUDY_FOLDER), "40"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    check(Comparison(**json.loads(ran.stdout.splitlines()[-1])))


@pytest.fixture
def engine():
    return SchedulerOnlyEngine(EngineSettings(KvPool(200, 64, 1), step_tokens=512))


def test_there_is_no_stretch_while_a_turn_is_in_its_prefill(engine):
    assert engine.decode_stretch() is None
    engine.add(Turn("t", 1000, 5, SessionBlocks("s", 64)))
    assert engine.decode_stretch() is None
    engine.step()
    assert engine.decode_stretch() is None


def test_more_steps_than_the_stretch_has_are_refused_with_its_length(engine):
    engine.add(Turn("t", 100, 9, SessionBlocks("s", 64)))
    while (stretch := engine.decode_stretch()) is None or stretch.num_steps == 1:
        engine.step()
    longest = stretch.num_steps
    with pytest.raises(InvalidArgumentError, match=f"1 to {longest}$"):
        engine.step(decode_steps=longest + 1)
    assert len(engine.step(decode_steps=longest).finished) == 1
