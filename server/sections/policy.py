"""Settings of one action policy."""

from __future__ import annotations

from dataclasses import dataclass

from server.core.batching import BATCHER_NAMES
from server.setting import Options, setting
from server.worker.factory import IMPORTABLE


@dataclass(frozen=True)
class PolicySection:
    """One action policy. The section's name is the name that robots ask for."""

    kind: str = setting(
        "flow",
        "flow is the small flow-matching network that comes with the project, pi05 is pi0.5 in "
        "plain torch, openpi is a policy server elsewhere that speaks openpi's websocket "
        "protocol, factory is your own.",
        # As in server.policy.registry, which a configuration must not import.
        choices=("flow", "pi05", "openpi", "factory"),
    )
    factory: str = setting(
        "",
        'With kind "factory": `module:callable` that returns a server.policy.interface.Policy; '
        + IMPORTABLE
        + ".",
    )
    options: Options = setting({}, "Keyword arguments of the policy's factory.")
    workers: int = setting(1, "Worker processes; on each of `devices`.", minimum=1, maximum=64)
    devices: list[str] = setting(
        [],
        "One value of CUDA_VISIBLE_DEVICES per GPU that carries workers. Empty: workers see what "
        "the server sees.",
    )
    max_batch: int = setting(16, "Most observations in one inference.", minimum=1, maximum=256)
    batcher: str = setting(
        "deadline",
        "Which observations go together, and when. deadline meets the robots' deadlines and paces "
        "them so that they ask together; the others are what it is compared with.",
        choices=BATCHER_NAMES,
    )
    pacing: bool = setting(
        True, "deadline only: tell robots when to ask. false: they ask when they want to."
    )
    refuse_overload: bool = setting(
        True,
        "deadline only: refuse a robot beside others that would make them starve, naming a control "
        "rate that fits. A robot alone is never refused.",
    )
    latency_table: str = setting(
        "",
        "deadline and lookahead: file of `python -m server profile-policy`, so that latencies are "
        "known before the first batch. Empty: learned from the first batches.",
    )
    jitter_margin_s: float = setting(
        0.005,
        "deadline only: time of a cycle that is kept free for the network and the front end.",
        minimum=0.0,
        maximum=10.0,
    )
    observation_deadline_s: float | None = setting(
        None,
        "Observations that name no deadline are given up after this. Absent: they wait.",
        minimum=0.001,
    )
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
