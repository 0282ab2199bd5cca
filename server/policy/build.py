"""From the configuration to a policy's driver."""

from __future__ import annotations

from collections.abc import Callable

from robot_sdk.clock import Clock
from server.core.batching import FifoBatcher
from server.policy.driver import PolicyDriver
from server.policy.registry import factory_path
from server.sections.policy import PolicySection


def build_policy(
    name: str,
    section: PolicySection,
    *,
    max_message_bytes: int,
    clock: Clock,
    on_chunk: Callable[[float], None],
) -> PolicyDriver:
    """The driver of one configured policy. Nothing is started or loaded yet."""
    return PolicyDriver(
        name,
        {
            "name": name,
            "factory": factory_path(section.kind, section.factory),
            "options": section.options,
            "added_latency_s": section.added_latency_s,
        },
        batcher=FifoBatcher(section.max_batch),
        num_workers=section.workers,
        max_batch=section.max_batch,
        max_message_bytes=max_message_bytes,
        infer_timeout_s=section.infer_timeout_s,
        clock=clock,
        on_chunk=on_chunk,
    )
