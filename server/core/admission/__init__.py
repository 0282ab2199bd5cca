"""Who may come in: the admission policies, the order of the queue and the wait that it means."""

from server.core.admission.aimd import AimdAdmission, AimdSettings, ControlRecord
from server.core.admission.build import POLICY_NAMES, build_policy
from server.core.admission.expected_wait import DurationHistory, expected_waits_s
from server.core.admission.fair_order import fair_order
from server.core.admission.forecast_cap import ForecastCapAdmission, ForecastCapSettings
from server.core.admission.interface import (
    POLICIES_WITH_A_CAP,
    ActiveEpisode,
    AdmissionDecision,
    AdmissionPolicy,
    AdmissionReport,
    EndedEpisode,
    FleetView,
    WaitingEpisode,
)
from server.core.admission.pause_resume import PauseResumeAdmission, PauseResumeSettings
from server.core.admission.static_cap import StaticCapAdmission
from server.core.admission.unlimited import UnlimitedAdmission
from server.core.admission.working_set import WorkingSetAdmission, WorkingSetSettings

__all__ = [
    "POLICIES_WITH_A_CAP",
    "POLICY_NAMES",
    "ActiveEpisode",
    "AdmissionDecision",
    "AdmissionPolicy",
    "AdmissionReport",
    "AimdAdmission",
    "AimdSettings",
    "ControlRecord",
    "DurationHistory",
    "EndedEpisode",
    "FleetView",
    "ForecastCapAdmission",
    "ForecastCapSettings",
    "PauseResumeAdmission",
    "PauseResumeSettings",
    "StaticCapAdmission",
    "UnlimitedAdmission",
    "WaitingEpisode",
    "WorkingSetAdmission",
    "WorkingSetSettings",
    "build_policy",
    "expected_waits_s",
    "fair_order",
]
