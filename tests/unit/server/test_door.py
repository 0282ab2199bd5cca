"""From the configuration to the policy and the engine's figures."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from server.brain.interface import EngineInfo, EngineLoad
from server.config import Config, ConfigError, from_tree
from server.core.admission import (
    POLICY_NAMES,
    AdmissionPolicy,
    AimdAdmission,
    WorkingSetAdmission,
    build_policy,
)
from server.core.residency import EngineGauges
from server.door import engine_gauges, tenant_weights
from server.sections.admission import AdmissionSection


def section(**values: Any) -> AdmissionSection:
    return from_tree({"admission": values}).admission


def built_from(section: AdmissionSection) -> AdmissionPolicy:
    return build_policy(section.policy, section.policy_settings())


@pytest.mark.parametrize("name", POLICY_NAMES)
def test_every_policy_that_can_be_named_is_built(name: str) -> None:
    assert built_from(section(policy=name)).name == name


def test_the_defaults_are_those_of_the_policies_themselves() -> None:
    for policy, plain in (
        ("aimd", AimdAdmission()),
        ("working-set", WorkingSetAdmission()),
    ):
        built: Any = built_from(section(policy=policy))
        assert built._settings == plain._settings


def test_settings_reach_the_policy() -> None:
    aimd: Any = built_from(section(policy="aimd", cap=9, aimd_initial_cap=12, aimd_interval_s=5))
    assert (aimd.cap, aimd.control_interval_s) == (9, 5.0)

    working_set: Any = built_from(section(policy="working-set", working_set_pool_share=0.5))
    assert working_set._settings.pool_share == 0.5

    cold: Any = built_from(section(policy="working-set", working_set_refresh=False))
    assert (working_set._settings.refresh, cold._settings.refresh) == (True, False)


@pytest.mark.parametrize("weight", [0, -1, True, "two", float("inf"), float("nan")])
def test_a_weight_that_is_no_share_is_named(weight: object) -> None:
    with pytest.raises(ConfigError, match=r"admission\.tenant_weights\.lab is"):
        tenant_weights(section(tenant_weights={"lab": weight}))


def test_the_configured_pool_comes_before_the_engine_s() -> None:
    brain: Any = SimpleNamespace(
        info=EngineInfo("e", "m", pool_blocks=100, block_tokens=16, snapshot_interval_tokens=0),
        load=EngineLoad(kv_cache_usage=0.5, requests_running=3),
        is_ready=True,
    )

    assert engine_gauges(section(), brain) == EngineGauges(100, 16, 0.5, 3, None, 0)
    assert engine_gauges(section(pool_blocks=130), brain).pool_blocks == 130
    assert engine_gauges(section(snapshot_interval_tokens=32), brain).snapshot_interval_tokens == 32
    assert engine_gauges(section(block_tokens=128), None) == EngineGauges(block_tokens=128)

    silent: Any = SimpleNamespace(info=EngineInfo("e", "m"), load=None, is_ready=True)
    assert engine_gauges(section(snapshot_interval_tokens=0), silent).snapshot_interval_tokens == 0


@pytest.mark.parametrize("can_refresh", [True, False])
def test_prefixes_are_refreshed_by_an_engine_that_can_while_it_is_ready(can_refresh: bool) -> None:
    brain: Any = SimpleNamespace(
        info=EngineInfo("e", "m", can_refresh=can_refresh), load=None, is_ready=True
    )
    assert engine_gauges(section(), brain).can_refresh is can_refresh

    brain.is_ready = False
    assert not engine_gauges(section(), brain).can_refresh
    assert not engine_gauges(section(), None).can_refresh


def test_the_documented_sections_load_back() -> None:
    assert Config().admission == section()
