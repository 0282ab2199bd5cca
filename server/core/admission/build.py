"""From a policy's name and its settings to the policy; the server and the replay share it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from robot_sdk.errors import InvalidArgumentError
from server.core.admission.aimd import AimdAdmission, AimdSettings
from server.core.admission.forecast_cap import ForecastCapAdmission, ForecastCapSettings
from server.core.admission.interface import POLICIES_WITH_A_CAP, AdmissionPolicy
from server.core.admission.pause_resume import PauseResumeAdmission, PauseResumeSettings
from server.core.admission.static_cap import StaticCapAdmission, StaticCapSettings
from server.core.admission.unlimited import UnlimitedAdmission
from server.core.admission.working_set import WorkingSetAdmission, WorkingSetSettings

SettingsT = TypeVar("SettingsT")

#: What `build_policy` and the configuration's admission.policy accept.
POLICY_NAMES = (
    UnlimitedAdmission.name,
    StaticCapAdmission.name,
    AimdAdmission.name,
    ForecastCapAdmission.name,
    PauseResumeAdmission.name,
    WorkingSetAdmission.name,
)


def build_policy(name: str, settings: Mapping[str, Any]) -> AdmissionPolicy:
    """A fresh policy.

    Args:
        name: One of POLICY_NAMES.
        settings: By the names of the policy's own settings class (AimdSettings and so on); what is
            absent keeps its default. Policies with a cap also take "cap".

    Raises:
        InvalidArgumentError: No such policy or setting, or a cap below 0.
    """
    own = dict(settings)
    cap = own.pop("cap", None) if name in POLICIES_WITH_A_CAP else None
    if name == UnlimitedAdmission.name:
        _check_names(name, own, ())
        return UnlimitedAdmission()
    if name == StaticCapAdmission.name:
        return StaticCapAdmission(cap, _settings_of(name, StaticCapSettings, own))
    if name == AimdAdmission.name:
        return AimdAdmission(cap, _settings_of(name, AimdSettings, own))
    if name == ForecastCapAdmission.name:
        return ForecastCapAdmission(_settings_of(name, ForecastCapSettings, own))
    if name == PauseResumeAdmission.name:
        return PauseResumeAdmission(_settings_of(name, PauseResumeSettings, own))
    if name == WorkingSetAdmission.name:
        return WorkingSetAdmission(_settings_of(name, WorkingSetSettings, own))
    raise InvalidArgumentError(
        "no such admission policy", field="policy", value=name, allowed=POLICY_NAMES
    )


def _settings_of(name: str, kind: type[SettingsT], given: Mapping[str, Any]) -> SettingsT:
    with_cap = ("cap",) if name in POLICIES_WITH_A_CAP else ()
    names = tuple(field.name for field in fields(kind))  # type: ignore[arg-type]
    _check_names(name, given, (*with_cap, *names))
    return kind(**given)


def _check_names(name: str, given: Mapping[str, Any], allowed: tuple[str, ...]) -> None:
    for setting in given:
        if setting not in allowed:
            raise InvalidArgumentError(
                f"the admission policy {name} has no such setting",
                field="settings",
                value=setting,
                allowed=allowed or ("none",),
            )
