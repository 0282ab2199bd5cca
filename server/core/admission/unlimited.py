"""No door at all."""

from __future__ import annotations

from server.core.admission.interface import AdmissionDecision, AdmissionPolicy, FleetView


class UnlimitedAdmission(AdmissionPolicy):
    """Everybody comes in at once."""

    name = "unlimited"

    def decide(self, view: FleetView) -> AdmissionDecision:
        return AdmissionDecision(num_admit=len(view.waiting))
