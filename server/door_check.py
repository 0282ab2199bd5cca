"""Does the door know what its policy needs?"""

from __future__ import annotations

import logging

from server.core.admission import StaticCapAdmission, WorkingSetAdmission
from server.core.residency import EngineGauges
from server.sections.admission import AdmissionSection

_log = logging.getLogger(__name__)


def door_problem(section: AdmissionSection, gauges: EngineGauges) -> str:
    """What the policy lacks and what to do, or nothing. `gauges` are those once models are loaded.

    No reason to stop: an operator may set the cap later, and slow start holds meanwhile.
    """
    if section.policy == StaticCapAdmission.name and section.cap is None:
        return (
            "admission.policy is static-cap and admission.cap is not set: everybody comes in until "
            "an operator sets a cap (SetCap); `python -m server plan` proposes one"
        )
    if section.policy != WorkingSetAdmission.name:
        return ""
    missing = [
        f"admission.{name}"
        for name in ("pool_blocks", "block_tokens")
        if getattr(gauges, name) is None
    ]
    if not missing:
        return ""
    return (
        "admission.policy is working-set and the engine does not tell its KV pool: only slow start "
        f"holds episodes back; set {' and '.join(missing)}"
    )


def warn_of_door(section: AdmissionSection, gauges: EngineGauges) -> None:
    """Log the problem, if there is one."""
    problem = door_problem(section, gauges)
    if problem:
        _log.warning("%s", problem)
