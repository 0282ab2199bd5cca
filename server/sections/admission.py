"""Settings of the door: which policy lets episodes in."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from server.core.admission import POLICIES_WITH_A_CAP, POLICY_NAMES
from server.setting import Options, setting


@dataclass(frozen=True)
class AdmissionSection:
    """Who comes in."""

    policy: str = setting(
        "unlimited",
        "Admission policy. unlimited: everybody. static-cap: a fixed number of episodes. aimd: a "
        "cap that follows the engine's KV usage, which fails on long contexts (the study's "
        "baseline). forecast-cap: the pool over the mean length of ended conversations. "
        "pause-resume: everybody, and conversations pause between turns while all together pass "
        "the pool. working-set: by what the episodes inside will need of the engine's KV pool.",
        choices=POLICY_NAMES,
    )
    cap: int | None = setting(
        None,
        "Most episodes inside at once with static-cap; the ceiling of the cap with aimd. Absent: "
        "no cap, no ceiling. An operator changes it with SetCap while the server runs.",
        minimum=0,
    )
    tenant_weights: Options = setting(
        {},
        "Shares of the room by tenant, as { name = 2.0 }: who has fewest episodes inside for its "
        "weight comes in next. A tenant that is not named has 1.",
    )
    pool_blocks: int | None = setting(
        None,
        "Blocks of the engine's KV pool. Absent: as the engine tells.",
        minimum=1,
    )
    block_tokens: int | None = setting(
        None,
        "Tokens in one block of the engine's prefix cache. Absent: as the engine tells, and 128 "
        "for the hit rule if it does not.",
        minimum=1,
    )
    snapshot_interval_tokens: int | None = setting(
        None,
        "For a hybrid model at an endpoint that does not tell: vLLM's "
        "prefix_cache_retention_interval there, 0 unless it was set. Absent: as the engine tells, "
        "and a snapshot at every block if it does not.",
        minimum=0,
    )
    max_turn_hold_s: float = setting(
        30.0,
        "Longest time that a policy may let one turn of an admitted episode wait. pause-resume "
        "does, and working-set while the episodes inside fill the pool.",
        minimum=0.0,
        maximum=3600.0,
    )
    static_cap_refresh: bool = setting(
        False,
        "With static-cap: have the engine touch the prefix of an idle episode that would be "
        "dropped soon. Only a hosted vLLM can.",
    )
    aimd_initial_cap: int = setting(16, "With aimd: the cap at the start.", minimum=1)
    aimd_min_cap: int = setting(1, "With aimd: the cap never goes below.", minimum=1)
    aimd_interval_s: float = setting(
        30.0, "With aimd: time between two controls; 30 s in the study.", minimum=0.1
    )
    aimd_increase: int = setting(
        1, "With aimd: added to the cap while somebody waits and usage is not high.", minimum=1
    )
    aimd_decrease: float = setting(
        0.5,
        "With aimd: the cap is multiplied by this when usage is high and the hit rate low.",
        minimum=0.0,
        maximum=1.0,
    )
    aimd_usage_high: float = setting(
        0.8, "With aimd: KV usage from here on is high.", minimum=0.0, maximum=1.0
    )
    aimd_hit_low: float = setting(
        0.8, "With aimd: a full-prefix hit rate below this is low.", minimum=0.0, maximum=1.0
    )
    forecast_cap_overcommit: float = setting(
        1.0,
        "With forecast-cap: factor on the pool; 1 lets all inside be at their longest at once.",
        minimum=0.01,
        maximum=100.0,
    )
    forecast_cap_first_context_tokens: int = setting(
        262_144,
        "With forecast-cap: how long a conversation becomes, before one has ended.",
        minimum=1,
    )
    pause_resume_interval_s: float = setting(
        5.0, "With pause-resume: time between two looks at the sum.", minimum=0.1
    )
    pause_resume_room_tokens: int = setting(
        100, "With pause-resume: room for each conversation's answer.", minimum=0
    )
    working_set_pool_share: float | None = setting(
        None,
        "With working-set: share of the pool to hand out, whatever was learned. Absent: as "
        "learned from which prefixes survive.",
        minimum=0.01,
        maximum=1.0,
    )
    working_set_slow_start_episodes: int = setting(
        8, "With working-set: episodes inside at once while no conversation is known.", minimum=1
    )
    working_set_refresh: bool = setting(
        True,
        "With working-set: have the engine touch the prefix of an idle episode that would be "
        "dropped soon. Only a hosted vLLM can.",
    )

    def policy_settings(self) -> dict[str, Any]:
        """What the chosen policy is built from: the settings that carry its name, and the cap."""
        prefix = self.policy.replace("-", "_") + "_"
        own = {
            field.name.removeprefix(prefix): getattr(self, field.name)
            for field in fields(self)
            if field.name.startswith(prefix)
        }
        return {**own, "cap": self.cap} if self.policy in POLICIES_WITH_A_CAP else own
