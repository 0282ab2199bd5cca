"""The door and the brain's cache as lines for an operator."""

from __future__ import annotations

from robot_sdk.api.v1 import fleet_pb2
from robot_sdk.plain_text import one_line

_MAX_CHARS = 300
#: How a server's admission policies say that they know no size, with the settings that tell it.
POOL_UNKNOWN = "the pool's size is unknown (admission.pool_blocks, admission.block_tokens)"
_POOL_NOT_TOLD = "the pool's size is not told yet (the brain is not ready)"


def admission_text(text: str, *, is_brain_ready: bool) -> str:
    """A sentence of the admission policy on one line.

    An engine tells its pool's size once it is ready; until then nobody has to set anything.
    """
    if not is_brain_ready:
        text = text.replace(POOL_UNKNOWN, _POOL_NOT_TOLD)
    return one_line(text, _MAX_CHARS)


def door_lines(admission: fleet_pb2.AdmissionStatus, *, is_brain_ready: bool = True) -> list[str]:
    """What the admission policy works with, if it says so."""
    words = []
    if admission.HasField("forecast_blocks"):
        of = f" of {admission.capacity_blocks:,}" if admission.HasField("capacity_blocks") else ""
        words.append(f"{admission.forecast_blocks:,}{of} KV blocks are spoken for")
    if admission.detail:
        words.append(admission_text(admission.detail, is_brain_ready=is_brain_ready))
    return [f"  {'; '.join(words)}"] if words else []


def cache_lines(brain: fleet_pb2.BrainStatus) -> list[str]:
    """Prefix hits, working set, engine and alerts. What is unknown is left out or said to be."""
    lines = []
    if brain.HasField("prefix"):
        lines += [
            _prefix_line(brain.prefix),
            *_working_set_lines(brain.prefix),
            *_refresh_lines(brain.prefix),
        ]
    if brain.HasField("load"):
        lines += _engine_lines(brain.load)
    for alert in brain.alerts:
        evidence, advice = (one_line(text, _MAX_CHARS) for text in (alert.evidence, alert.advice))
        lines += [f"  ALERT {alert.name}, for {alert.age_s:.0f} s: {evidence}", f"    {advice}"]
    return lines


def _prefix_line(prefix: fleet_pb2.PrefixStatus) -> str:
    words = [f"prefixes of the last {prefix.window_s:.0f} s: "]
    if prefix.HasField("full_prefix_hit"):
        words.append(
            f"{prefix.full_prefix_hit:.1%} of {prefix.turns_in_window} turns found theirs whole"
        )
    else:
        words.append("no turn counted")
    if prefix.HasField("computed_per_generated"):
        words.append(f"; {prefix.computed_per_generated:.1f} tokens computed for one generated")
        if prefix.HasField("baseline_computed_per_generated"):
            words.append(f" (healthy {prefix.baseline_computed_per_generated:.1f})")
    if prefix.HasField("computed_tokens_per_min"):
        words.append(
            f"; per minute {prefix.computed_tokens_per_min:,.0f} computed, "
            f"{prefix.generated_tokens_per_min:,.0f} generated"
        )
    return "  " + "".join(words)


def _working_set_lines(prefix: fleet_pb2.PrefixStatus) -> list[str]:
    if not prefix.working_set_tokens:
        return []
    words = [f"working set: {prefix.working_set_tokens:,} tokens"]
    if prefix.HasField("working_set_blocks"):
        words.append(f", {prefix.working_set_blocks:,} blocks")
    if prefix.HasField("forecast_blocks"):
        words.append(f", {prefix.forecast_blocks:,} when grown")
    if prefix.HasField("learned_capacity_blocks"):
        words.append(f"; {prefix.learned_capacity_blocks:,} seen to survive")
    if prefix.HasField("mean_context_tokens"):
        words.append(f"; mean context {prefix.mean_context_tokens:,.0f} tokens")
    if prefix.HasField("reuse_distance_blocks_p90"):
        words.append(
            f"; reuse distance {prefix.reuse_distance_blocks_p50:,.0f} blocks in the median, "
            f"{prefix.reuse_distance_blocks_p90:,.0f} at 90%"
        )
    return ["  " + "".join(words)]


def _refresh_lines(prefix: fleet_pb2.PrefixStatus) -> list[str]:
    lost = prefix.refreshes_lost_total
    total = prefix.refreshes_found_total + lost
    return [f"  refreshed: {total:,} prefixes so far, {lost:,} of them too late"] if total else []


def _engine_lines(load: fleet_pb2.EngineLoad) -> list[str]:
    words = []
    if load.HasField("pool_blocks"):
        size = f" of {load.block_tokens} tokens" if load.HasField("block_tokens") else ""
        words.append(f"pool {load.pool_blocks:,} blocks{size}")
    if load.HasField("kv_cache_usage"):
        # Next to the hit rate it misleads; alone it misleads more.
        words.append(f"{load.kv_cache_usage:.0%} held by running requests")
    if load.HasField("requests_running"):
        words.append(f"{load.requests_running} running")
    if load.HasField("requests_waiting"):
        words.append(f"{load.requests_waiting} waiting")
    if load.HasField("preemptions_total"):
        words.append(f"{load.preemptions_total} preempted so far")
    return [f"  engine: {', '.join(words)}"] if words else []
