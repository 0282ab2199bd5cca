"""What is replayed. Plain values: they travel to worker processes and name a result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from robot_sdk.errors import InvalidArgumentError


@dataclass(frozen=True)
class EngineChoice:
    """Which engine serves the brain.

    Attributes:
        version: "installed", or "study": vLLM 0.17.1 from a folder of its own.
        pool_blocks, block_tokens, num_state_groups: See server.core.capacity.KvPool.
        step_tokens, retention_tokens: See server.capacity.engine.EngineSettings. The study's
            version keeps every snapshot (None).

    The defaults are this server's own profile of the study's model; sim.paper.replay_rows has what
    the study's fleets are replayed with.
    """

    version: Literal["installed", "study"] = "installed"
    pool_blocks: int = 4270
    block_tokens: int = 784
    num_state_groups: int = 3
    step_tokens: int = 8192
    retention_tokens: int | None = 0


@dataclass(frozen=True)
class AdmissionChoice:
    """Who comes in.

    Attributes:
        policy: A name of server.core.admission.POLICY_NAMES.
        settings: Of that policy, for example {"cap": 16}.
        told_pool_share: The pool that the policy is told, as a share of the true one.
        max_turn_hold_s: Longest time that the policy may let one turn wait.
    """

    policy: str = "unlimited"
    settings: Mapping[str, Any] = field(default_factory=dict)
    told_pool_share: float = 1.0
    max_turn_hold_s: float = 30.0


@dataclass(frozen=True)
class WorkloadChoice:
    """Which episodes, in which order.

    Attributes:
        mix: A name that `sim.fleet.workload.mixes` knows: "all", "long", "short", "turning", or
            the path of a trace file.
        order: "shuffled" by the run's seed, or "suite": as the study lists its suites.
        gap: Waited for between two turns: the robot's own time, or the recorded wall clock.
    """

    mix: str = "all"
    order: Literal["shuffled", "suite"] = "shuffled"
    gap: Literal["env", "wall"] = "env"


@dataclass(frozen=True)
class FleetPoint:
    """From `time_s` on so many robots want to work.

    Attributes:
        cuts_off: A robot that is too many leaves after the turn that is on, and its episode is cut
            off. Otherwise it leaves when its episode has ended. At the door it leaves at once.
    """

    time_s: float
    num_robots: int
    cuts_off: bool = False


@dataclass(frozen=True)
class OffloadChoice:
    """KV blocks that leave the pool go to host memory and may come back. A model, not measured.

    Attributes:
        host_blocks: Room in host memory.
        gigabytes_per_s: Both ways together over all GPUs of the engine.
        block_megabytes: Bytes of one block over all GPUs, keys and values of all layers.
    """

    host_blocks: int
    gigabytes_per_s: float
    block_megabytes: float


@dataclass(frozen=True)
class ActionChoice:
    """An action tier beside the brain, so that both act at once.

    Attributes:
        discipline: Name from sim.fleet.disciplines.
        horizon, executed_steps: Of a chunk.
        whole_gap: A policy makes all control steps of a trace, not only those of its `chunks`.
    """

    num_gpus: int = 1
    control_hz: float = 20.0
    discipline: str = "paced"
    horizon: int = 10
    executed_steps: int = 5
    whole_gap: bool = False


@dataclass(frozen=True)
class ReplaySettings:
    """One run, but for its seed.

    Attributes:
        fleet: How many robots want to work, over time; the first point is at 0.
        duration_s: Virtual seconds.
        warm_up_s: Left out of `hit_after_warm_up` and of nothing else.
        episodes_per_robot: A finite batch: a robot leaves after so many; None: it never does.
        cost: Name of a cost table that sim.fleet.brain knows, or the path of one.
        round_trip_s: Network time of a turn.
    """

    fleet: tuple[FleetPoint, ...]
    admission: AdmissionChoice = field(default_factory=AdmissionChoice)
    workload: WorkloadChoice = field(default_factory=WorkloadChoice)
    engine: EngineChoice = field(default_factory=EngineChoice)
    duration_s: float = 1800.0
    warm_up_s: float = 300.0
    episodes_per_robot: int | None = None
    cost: str = "h800-tp4-qwen3.6-27b"
    round_trip_s: float = 0.0
    offload: OffloadChoice | None = None
    action: ActionChoice | None = None

    @classmethod
    def sustained(cls, num_robots: int, **others: Any) -> ReplaySettings:
        """All robots from the beginning, for ever."""
        return cls((FleetPoint(0.0, num_robots),), **others)

    def to_json(self) -> dict[str, Any]:
        """Plain values; equal settings give equal ones."""
        return asdict(self)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> ReplaySettings:
        """What `to_json` gave.

        Raises:
            InvalidArgumentError: It is something else.
        """
        values = dict(content)
        try:
            values["fleet"] = tuple(FleetPoint(**point) for point in values["fleet"])
            values["admission"] = AdmissionChoice(**values["admission"])
            values["workload"] = WorkloadChoice(**values["workload"])
            values["engine"] = EngineChoice(**values["engine"])
            for name, kind in (("offload", OffloadChoice), ("action", ActionChoice)):
                if values.get(name) is not None:
                    values[name] = kind(**values[name])
            return cls(**values)
        except (KeyError, TypeError) as error:
            raise InvalidArgumentError(f"not the settings of a replay: {error!r}") from None
