"""What this process serves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from server.brain.interface import BrainEngine
from server.policy.driver import PolicyDriver


@dataclass
class BrainTotals:
    """Since the server started."""

    committed: int = 0
    replayed: int = 0
    aborted: int = 0


@dataclass(frozen=True)
class Services:
    """The engines behind the servicers. `brain` None: this process does not serve it."""

    brain: BrainEngine | None
    policies: Mapping[str, PolicyDriver]
    brain_totals: BrainTotals

    @property
    def engines(self) -> list[BrainEngine | PolicyDriver]:
        """Everything that loads and has to be stopped."""
        return [*([self.brain] if self.brain else []), *self.policies.values()]

    @property
    def roles(self) -> list[str]:
        return [*(["brain"] if self.brain else []), *(["policy"] if self.policies else [])]

    @property
    def brain_ready(self) -> bool:
        return self.brain is not None and self.brain.is_ready

    @property
    def policies_ready(self) -> bool:
        return bool(self.policies) and all(p.num_ready > 0 for p in self.policies.values())
