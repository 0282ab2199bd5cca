"""Settings of one action policy."""

from __future__ import annotations

from dataclasses import dataclass

from server.setting import Options, setting
from server.worker.factory import IMPORTABLE


@dataclass(frozen=True)
class PolicySection:
    """One action policy. The section's name is the name that robots ask for."""

    kind: str = setting(
        "flow",
        "flow is the small flow-matching network that comes with the project; factory is your own.",
        choices=("flow", "factory"),
    )
    factory: str = setting(
        "",
        'With kind "factory": `module:callable` that returns a server.policy.interface.Policy; '
        + IMPORTABLE
        + ".",
    )
    options: Options = setting({}, "Keyword arguments of the policy's factory.")
    workers: int = setting(1, "Worker processes.", minimum=1, maximum=64)
    max_batch: int = setting(16, "Most observations in one inference.", minimum=1, maximum=256)
    added_latency_s: float = setting(
        0.0,
        "Added to every inference to stand for a slower model; reported as modelled.",
        minimum=0.0,
        maximum=60.0,
    )
    infer_timeout_s: float = setting(
        60.0,
        "A worker that takes longer for one batch, added_latency_s included, is killed and "
        "started again; its observations fail.",
        minimum=0.1,
    )
