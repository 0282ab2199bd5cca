"""Alerts in the log: when one comes up and when it goes away."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from server.core.residency import StandingAlert

_log = logging.getLogger(__name__)


class AlertLog:
    """Remembers what stands, so that an alert that stays is logged once."""

    def __init__(self) -> None:
        self._standing: set[str] = set()

    def update(self, alerts: Iterable[StandingAlert]) -> None:
        """Take in what stands now."""
        findings = {alert.finding.name: alert.finding for alert in alerts}
        for name in sorted(findings.keys() - self._standing):
            _log.warning("%s: %s; %s", name, findings[name].evidence, findings[name].advice)
        for name in sorted(self._standing - findings.keys()):
            _log.info("%s is over", name)
        self._standing = set(findings)
