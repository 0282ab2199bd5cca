"""Admission policies of a replay: the server's own, by the server's own names."""

from __future__ import annotations

from server.core.admission import AdmissionPolicy, build_policy
from sim.fleet.replay.settings import AdmissionChoice, EngineChoice


def make_policy(choice: AdmissionChoice, engine: EngineChoice) -> AdmissionPolicy:
    """A fresh policy for one run.

    Args:
        choice: Its name and settings.
        engine: What serves the brain. No policy may look at it: what a policy knows of the engine
            reaches it as in a server, by what the registry is told.

    Raises:
        InvalidArgumentError: No such policy or setting.
    """
    del engine
    return build_policy(choice.policy, choice.settings)
