"""Settings of the door: which policy lets episodes in."""

from __future__ import annotations

from dataclasses import dataclass

from server.setting import setting


@dataclass(frozen=True)
class AdmissionSection:
    """Who comes in."""

    policy: str = setting("unlimited", "Admission policy.", choices=("unlimited", "static-cap"))
    cap: int | None = setting(
        None, 'With policy "static-cap": most episodes inside at once. Absent: no cap.', minimum=0
    )
