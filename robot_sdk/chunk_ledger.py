"""Which observations wait for an answer. Each gets exactly one: a chunk or a failure."""

from __future__ import annotations

from dataclasses import dataclass

from robot_sdk.errors import InvalidArgumentError


@dataclass(frozen=True)
class Pending:
    """An observation on its way. Times on the stream's clock, seconds."""

    sequence: int
    control_step: int
    sent_s: float
    expires_s: float | None


class ChunkLedger:
    """Pure bookkeeping of one stream. Not thread-safe."""

    def __init__(self) -> None:
        self._pending: dict[int, Pending] = {}
        self._last_sequence = -1

    def __len__(self) -> int:
        return len(self._pending)

    def add(self, sequence: int, control_step: int, deadline_s: float | None, now_s: float) -> None:
        """An observation is sent now.

        Raises:
            InvalidArgumentError: Its sequence does not count up.
        """
        if sequence <= self._last_sequence:
            raise InvalidArgumentError(
                "the observation's sequence does not count up",
                field="sequence",
                value=sequence,
                allowed=[f"at least {self._last_sequence + 1}"],
            )
        self._last_sequence = sequence
        expires_s = None if deadline_s is None else now_s + deadline_s
        self._pending[sequence] = Pending(sequence, control_step, now_s, expires_s)

    def settle(self, sequence: int) -> Pending | None:
        """An answer has come. None if that observation has had its answer already."""
        return self._pending.pop(sequence, None)

    def settle_all(self, keep: int | None = None) -> list[Pending]:
        """None of them will be answered any more, except `keep`, which has not left yet."""
        settled = [item for item in self._pending.values() if item.sequence != keep]
        for item in settled:
            del self._pending[item.sequence]
        return settled

    def expire(self, now_s: float) -> list[Pending]:
        """Those whose deadline has passed without an answer."""
        late = [
            item
            for item in self._pending.values()
            if item.expires_s is not None and now_s >= item.expires_s
        ]
        for item in late:
            del self._pending[item.sequence]
        return late

    def next_expiry_s(self) -> float | None:
        """When the next deadline passes, None if none waits with one."""
        times_s = [item.expires_s for item in self._pending.values() if item.expires_s is not None]
        return min(times_s, default=None)
