"""Policies by name."""

from __future__ import annotations

import pytest

from robot_sdk.errors import InvalidArgumentError
from server.core.admission import POLICIES_WITH_A_CAP, POLICY_NAMES, build_policy


@pytest.mark.parametrize("name", POLICY_NAMES)
def test_a_policy_is_built_by_its_own_name(name: str) -> None:
    assert build_policy(name, {}).name == name


@pytest.mark.parametrize("name", POLICIES_WITH_A_CAP)
def test_a_cap_reaches_those_that_have_one(name: str) -> None:
    policy = build_policy(name, {"cap": 3})
    policy.set_cap(2)

    assert policy.cap == 2


def test_an_unknown_policy_is_named_with_those_that_exist() -> None:
    with pytest.raises(InvalidArgumentError, match=r"best-effort.*working-set"):
        build_policy("best-effort", {})


@pytest.mark.parametrize(
    ("name", "setting"), [("unlimited", "cap"), ("static-cap", "k"), ("working-set", "pool")]
)
def test_a_setting_that_a_policy_does_not_have_is_refused_by_name(name: str, setting: str) -> None:
    with pytest.raises(InvalidArgumentError, match=rf"{name} has no such setting.*{setting}"):
        build_policy(name, {setting: 1})


@pytest.mark.parametrize("name", POLICY_NAMES)
def test_the_settings_that_are_offered_instead_are_all_there_are(name: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        build_policy(name, {"no such": 1})

    assert ("cap" in caught.value.allowed) == (name in POLICIES_WITH_A_CAP)
    assert len(caught.value.allowed) == len(set(caught.value.allowed))
