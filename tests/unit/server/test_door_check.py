from __future__ import annotations

from typing import Any

import pytest

from server.config import from_tree
from server.core.residency import EngineGauges
from server.door_check import door_problem, warn_of_door

TOLD = EngineGauges(pool_blocks=100, block_tokens=16)


def problem(gauges: EngineGauges, **values: Any) -> str:
    return door_problem(from_tree({"admission": values}).admission, gauges)


def test_a_static_cap_without_a_cap_is_told() -> None:
    assert "admission.cap is not set" in problem(TOLD, policy="static-cap")
    assert problem(TOLD, policy="static-cap", cap=0) == ""


@pytest.mark.parametrize(
    ("gauges", "missing"),
    [
        (TOLD, None),
        (EngineGauges(block_tokens=16), "set admission.pool_blocks"),
        (EngineGauges(pool_blocks=100), "set admission.block_tokens"),
        (EngineGauges(), "set admission.pool_blocks and admission.block_tokens"),
    ],
)
def test_a_working_set_without_the_pool_is_told(gauges: EngineGauges, missing: str | None) -> None:
    told = problem(gauges, policy="working-set")

    assert told == "" if missing is None else told.endswith(missing)


@pytest.mark.parametrize("policy", ["unlimited", "aimd"])
def test_other_policies_need_nothing(policy: str) -> None:
    assert problem(EngineGauges(), policy=policy) == ""


def test_it_is_one_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    warn_of_door(from_tree({"admission": {"policy": "static-cap"}}).admission, TOLD)
    warn_of_door(from_tree({}).admission, TOLD)

    assert [record.levelname for record in caplog.records] == ["WARNING"]
