"""Notices a camera that has stopped while everything around it goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from robot_sdk.errors import InvalidArgumentError, StaleObservationError
from robot_sdk.observation import Observation

#: Control steps over which a frame id must change. At 20 Hz this is 0.25 s, so any camera of at
#: least 4 Hz passes; a slower one needs a larger value.
DEFAULT_MAX_SAME_STEPS = 5


@dataclass(frozen=True)
class _Seen:
    frame_id: int
    step: int


class FrameWatch:
    """Compares `Observation.frame_ids` over control steps.

    It counts steps, not seconds, so a simulator that stands still is not a stopped camera. The
    observations may be sparse: two equal ids five steps apart mean five steps without a frame.
    Keep one watch for a whole episode, so that a camera that froze between two tools is noticed.
    """

    def __init__(self, max_same_steps: int = DEFAULT_MAX_SAME_STEPS) -> None:
        if max_same_steps < 1:
            raise InvalidArgumentError(
                "must be at least 1", field="max_same_steps", value=max_same_steps
            )
        self._max_same_steps = max_same_steps
        self._seen: dict[str, _Seen] = {}

    def check(self, step: int, observation: Observation) -> None:
        """Take in the observation of a step.

        Raises:
            StaleObservationError: A camera's frame id has been the same for `max_same_steps`
                steps. It passes again with the first new frame.
        """
        self._note(step, observation.frame_ids)
        stopped = {
            camera: step - self._seen[camera].step
            for camera in observation.frame_ids
            if step - self._seen[camera].step >= self._max_same_steps
        }
        if stopped:
            names = ", ".join(f"{name} ({steps} steps)" for name, steps in sorted(stopped.items()))
            raise StaleObservationError(
                f"camera without a new frame: {names}",
                field="frame_ids",
                allowed=(f"a new frame id within {self._max_same_steps} control steps",),
                hint="no inference is run on it; check the camera, it resumes with a new frame",
            )

    def _note(self, step: int, frame_ids: Mapping[str, int]) -> None:
        for camera, frame_id in frame_ids.items():
            seen = self._seen.get(camera)
            if seen is None or seen.frame_id != frame_id:
                self._seen[camera] = _Seen(frame_id, step)
