"""From the configuration to a policy's driver."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from robot_sdk.clock import Clock
from server.config import ConfigError
from server.core.batching import Batcher, LatencyTable, make_batcher
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
    """The driver of one configured policy. Nothing is started or loaded yet.

    Raises:
        ConfigError: The latency table cannot be read or does not reach max_batch.
    """
    num_workers = section.workers * max(1, len(section.devices))
    return PolicyDriver(
        name,
        {
            "name": name,
            "factory": factory_path(section.kind, section.factory),
            "options": section.options,
            "added_latency_s": section.added_latency_s,
        },
        batcher=_batcher(name, section, num_workers),
        num_workers=num_workers,
        max_batch=section.max_batch,
        max_message_bytes=max_message_bytes,
        infer_timeout_s=section.infer_timeout_s,
        clock=clock,
        default_deadline_s=section.observation_deadline_s,
        devices=section.devices,
        on_chunk=on_chunk,
    )


def _batcher(name: str, section: PolicySection, num_workers: int) -> Batcher[Any]:
    return make_batcher(
        section.batcher,
        section.max_batch,
        num_workers,
        _table(name, section),
        section.jitter_margin_s,
        paces=section.pacing,
        refuses=section.refuse_overload,
    )


def _table(name: str, section: PolicySection) -> LatencyTable | None:
    if not section.latency_table:
        return None
    key = f"policies.{name}.latency_table"
    try:
        text = Path(section.latency_table).read_text(encoding="utf-8")
        table = LatencyTable.from_json(json.loads(text))
    except OSError as error:
        raise ConfigError(
            f"{key}: cannot read {section.latency_table}: {error.strerror}"
        ) from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{key}: {section.latency_table} is no latency table: {error}") from error
    if table.largest_batch < section.max_batch:
        raise ConfigError(
            f"{key}: the table ends at batches of {table.largest_batch}; lower "
            f"policies.{name}.max_batch ({section.max_batch}) or measure larger batches"
        )
    return table
