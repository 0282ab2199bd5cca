"""From a turn to vLLM's request."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from robot_sdk.messages import Sampling

#: vLLM takes earlier turns by the smaller priority, a whole number.
_PRIORITY_PER_S = 1000
#: A slack beyond this sorts like this.
_MAX_SLACK_S = 24 * 3600.0
#: Added to the score of a token that must not be written; vLLM's smallest.
_NEVER = -100.0


@dataclass(frozen=True)
class SamplingDefaults:
    """For turns that leave something open.

    Attributes:
        model: The model's own, by vLLM's names.
        temperature, top_p: None: the model's own.
        forbidden_ids: Tokens that are never written.
    """

    model: Mapping[str, Any]
    temperature: float | None
    top_p: float | None
    max_output_tokens: int
    forbidden_ids: Collection[int]


def sampling_arguments(
    sampling: Sampling, defaults: SamplingDefaults, room_tokens: int
) -> dict[str, Any]:
    """Arguments of vLLM's SamplingParams, without the output's kind and structure.

    Args:
        sampling: What the turn asks for.
        defaults: For the rest.
        room_tokens: What the context leaves for the answer; at least 1.
    """
    arguments = dict(defaults.model)
    # The model's generation configuration may hold a length of its own.
    arguments.pop("max_tokens", None)
    for name in ("temperature", "top_p"):
        value = getattr(sampling, name)
        value = getattr(defaults, name) if value is None else value
        if value is not None:
            arguments[name] = value
    wanted = sampling.max_output_tokens
    wanted = defaults.max_output_tokens if wanted is None else wanted
    arguments["max_tokens"] = min(wanted, room_tokens)
    if sampling.seed is not None:
        arguments["seed"] = sampling.seed
    if defaults.forbidden_ids:
        arguments["logit_bias"] = dict.fromkeys(sorted(defaults.forbidden_ids), _NEVER)
    # The parsers of calls and thinking look for special tokens in the text.
    arguments["skip_special_tokens"] = False
    return arguments


def priority(slack_s: float | None, now_s: float) -> int:
    """When the robot runs out of things to do, in ms: the turn that is needed first goes first.

    A robot that says nothing needs its answer now. Times are absolute, so a turn that waits moves
    ahead of those that come later with the same slack, and none waits for ever.
    """
    slack = 0.0 if slack_s is None or math.isnan(slack_s) else slack_s
    return round((now_s + min(max(slack, 0.0), _MAX_SLACK_S)) * _PRIORITY_PER_S)
