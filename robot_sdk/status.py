"""`python -m robot_sdk status HOST:PORT`: what a server is doing, as a small table."""

from __future__ import annotations

import argparse
import sys

from robot_sdk import operator_access
from robot_sdk.api.v1 import fleet_pb2
from robot_sdk.brain_status_text import admission_text, cache_lines, door_lines
from robot_sdk.errors import InvalidArgumentError
from robot_sdk.plain_text import one_line
from robot_sdk.policy_status_text import batcher_lines

DESCRIPTION = """\
Prints admission, brain, policies and episodes of a running server. Exit codes: 0 done, 1 the server
cannot be reached or refuses, 2 bad input."""

_TIMEOUT_S = 5.0
_CLEAR_SCREEN = "\x1b[H\x1b[2J"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("target", metavar="HOST:PORT", help="address of the server")
    parser.add_argument("--watch", action="store_true", help="repeat until Ctrl-C")
    parser.add_argument("--interval", type=float, default=1.0, metavar="SECONDS", help="of --watch")
    operator_access.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command; returns the exit code.

    Raises:
        InvalidArgumentError: Bad address, file or interval.
        RobotSdkError: The server cannot be reached or refuses.
    """
    if not arguments.interval >= 0.1:
        raise InvalidArgumentError(
            "too short", field="--interval", value=arguments.interval, allowed=("0.1 or more",)
        )
    with operator_access.open_fleet(arguments.target, arguments) as fleet:
        if not arguments.watch:
            response = fleet.stub.Status(
                fleet_pb2.StatusRequest(include_episodes=True),
                timeout=_TIMEOUT_S,
                metadata=fleet.metadata,
            )
            sys.stdout.write(render_status(response.status) + "\n")
            return 0
        request = fleet_pb2.WatchRequest(interval_s=arguments.interval, include_episodes=True)
        for update in fleet.stub.Watch(request, metadata=fleet.metadata):
            sys.stdout.write(_CLEAR_SCREEN + render_status(update.status) + "\n")
            sys.stdout.flush()
        return 0


def render_status(status: fleet_pb2.FleetStatus) -> str:
    """The table as text, without a line end at the end."""
    admission = status.admission
    cap = f" (cap {admission.cap})" if admission.HasField("cap") else ""
    is_brain_ready = status.brain.ready or not status.HasField("brain")
    lines = [
        f"server {status.server_boot_id[:12]}, up {status.uptime_s:.0f} s"
        + (", draining" if status.draining else ""),
        f"admission {admission.policy}: {admission.active_episodes} active{cap}, "
        f"{admission.queued_episodes} queued; {admission.admitted_total} admitted, "
        f"{admission.ended_total} ended, {admission.expired_total} expired"
        + (
            f"; {admission_text(admission.reason, is_brain_ready=is_brain_ready)}"
            if admission.reason
            else ""
        ),
        *door_lines(admission, is_brain_ready=is_brain_ready),
    ]
    if status.HasField("brain"):
        brain = status.brain
        lines.append(
            f"brain {brain.engine} {brain.model}: {'ready' if brain.ready else 'not ready'}, "
            f"{brain.running_turns} running, {brain.waiting_turns} waiting; "
            f"{brain.committed_turns_total} committed, {brain.replayed_turns_total} replayed, "
            f"{brain.aborted_turns_total} aborted"
        )
        if brain.problem:
            lines.append(f"  not ready: {one_line(brain.problem, 300)}")
        lines += cache_lines(brain)
    for policy in status.policies:
        lines.append(
            f"policy {policy.name}: {policy.ready_workers} of {policy.workers} workers ready, "
            f"{policy.running_observations} running, {policy.waiting_observations} waiting; "
            f"{policy.chunks_total} chunks, {policy.failed_total} failed, "
            f"{policy.superseded_total} superseded"
        )
        lines += batcher_lines(policy)
    if status.episodes:
        lines += ["", _episode_line(*_HEADINGS)]
        lines += [_episode(episode) for episode in status.episodes]
    return "\n".join(lines)


_HEADINGS = (
    "episode", "robot", "phase", "age", "lease", "turns", "context", "chunks", "buffered", "task",
)  # fmt: skip


def _episode(episode: fleet_pb2.EpisodeStatus) -> str:
    if episode.phase == fleet_pb2.EPISODE_PHASE_QUEUED:
        phase = f"queued {episode.queue_position}"
    elif episode.phase == fleet_pb2.EPISODE_PHASE_ADMITTED:
        phase = "running" if episode.connected else "cut off"
    else:
        phase = "unknown"
    state = episode.robot_state
    buffered = str(state.buffered_steps) if state.HasField("buffered_steps") else "-"
    context = f"{episode.context_tokens:,}" if episode.HasField("context_tokens") else "-"
    return _episode_line(
        episode.episode_id[:16] or "-",
        one_line(episode.robot_id, 14),
        phase,
        f"{episode.age_s:.0f} s",
        f"{episode.lease_remaining_s:.1f} s",
        str(episode.committed_turns),
        context,
        str(episode.chunks_served),
        buffered,
        one_line(episode.task, 60),
    )


def _episode_line(
    episode: str,
    robot: str,
    phase: str,
    age: str,
    lease: str,
    turns: str,
    context: str,
    chunks: str,
    buffered: str,
    task: str,
) -> str:
    return (
        f"{episode:<16}  {robot:<14}  {phase:<9}  {age:>7}  {lease:>7}  {turns:>5}  {context:>9}  "
        f"{chunks:>6}  {buffered:>8}  {task}"
    ).rstrip()
