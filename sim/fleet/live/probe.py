"""A short episode that finds out what words become at a server."""

from __future__ import annotations

from robot_sdk.client import Client
from robot_sdk.errors import DeadlineExceededError, OverloadedError
from robot_sdk.messages import Sampling, ToolCall
from sim.fleet.live.lengths import PROBE_WORDS, WordLengths, measured_lengths
from sim.fleet.live.robot import TASK, messages_of
from sim.fleet.live.words import random_words

_ADMISSION_TIMEOUT_S = 30.0


def probe(client: Client, run_id: str, turn_timeout_s: float) -> WordLengths | None:
    """Ask three small turns.

    Returns:
        None if the server counts no tokens, or has no place for the episode at present.

    Raises:
        RobotSdkError: A turn fails.
    """
    usages = []
    calls: tuple[ToolCall, ...] = ()
    episode = client.episode(
        task=TASK,
        robot_id="replay-probe",
        run_id=run_id,
        task_family="replay-probe",
        admission_timeout_s=_ADMISSION_TIMEOUT_S,
    )
    try:
        with episode:
            for index, num_words in enumerate(PROBE_WORDS):
                answer = episode.decide(
                    messages_of(random_words(num_words, f"{run_id} probe {index}"), calls),
                    deadline_s=turn_timeout_s,
                    sampling=Sampling(max_output_tokens=1),
                )
                calls = answer.tool_calls
                usages.append(answer.usage)
            episode.end("success", "lengths are known")
    except (DeadlineExceededError, OverloadedError):
        if episode.id:
            raise
        return None
    return measured_lengths(usages)
