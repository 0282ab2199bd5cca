"""The robot-side runtime SDK: brain turns and action chunks at a robot's control rate.

The names below are the public ones for everyday use; each lives in the module that explains it.
They are imported when first used, so that a program that needs one pays for one.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from robot_sdk.version import __version__

if TYPE_CHECKING:
    from robot_sdk import errors, telemetry
    from robot_sdk.action_guard import ActionGuard
    from robot_sdk.action_source import Act, ActionSource, Command, Done, Hold, HoldReason, Tick
    from robot_sdk.agent import Agent, AgentLimits
    from robot_sdk.buffer import ChunkBuffer
    from robot_sdk.channel import TlsConfig
    from robot_sdk.chunks import ChunkArrival, ChunkFailure, PolicyObservation, PolicyStream
    from robot_sdk.client import Client, connect
    from robot_sdk.clock import SYSTEM_CLOCK, Clock, MonotonicClock, VirtualClock
    from robot_sdk.control import ControlLoop
    from robot_sdk.episode import Episode
    from robot_sdk.errors import RobotSdkError
    from robot_sdk.messages import ImagePart, Message, TextPart, ToolCall, ToolSpec, TurnResult
    from robot_sdk.observation import Observation
    from robot_sdk.policy_source import PolicyResult, PolicySource
    from robot_sdk.request_timing import RequestTiming
    from robot_sdk.results import EpisodeResult, Verdict
    from robot_sdk.robot import Action, Robot
    from robot_sdk.runner import EpisodeOptions, run_episode
    from robot_sdk.running_episode import RunningEpisode
    from robot_sdk.spec import ActionDimension, ActionGroup, ObservationKey, PolicySpec
    from robot_sdk.tools import Range, ToolRegistry, ToolResult, finish, tool

_HOME = {
    "Act": "action_source",
    "Action": "robot",
    "ActionDimension": "spec",
    "ActionGroup": "spec",
    "ActionGuard": "action_guard",
    "ActionSource": "action_source",
    "Agent": "agent",
    "AgentLimits": "agent",
    "ChunkArrival": "chunks",
    "ChunkBuffer": "buffer",
    "ChunkFailure": "chunks",
    "Client": "client",
    "Clock": "clock",
    "Command": "action_source",
    "ControlLoop": "control",
    "Done": "action_source",
    "Episode": "episode",
    "EpisodeOptions": "runner",
    "EpisodeResult": "results",
    "Hold": "action_source",
    "HoldReason": "action_source",
    "ImagePart": "messages",
    "Message": "messages",
    "MonotonicClock": "clock",
    "Observation": "observation",
    "ObservationKey": "spec",
    "PolicyObservation": "chunks",
    "PolicyResult": "policy_source",
    "PolicySource": "policy_source",
    "PolicySpec": "spec",
    "PolicyStream": "chunks",
    "Range": "tools",
    "RequestTiming": "request_timing",
    "Robot": "robot",
    "RobotSdkError": "errors",
    "RunningEpisode": "running_episode",
    "SYSTEM_CLOCK": "clock",
    "TextPart": "messages",
    "Tick": "action_source",
    "TlsConfig": "channel",
    "ToolCall": "messages",
    "ToolRegistry": "tools",
    "ToolResult": "tools",
    "ToolSpec": "messages",
    "TurnResult": "messages",
    "Verdict": "results",
    "VirtualClock": "clock",
    "connect": "client",
    "finish": "tools",
    "run_episode": "runner",
    "tool": "tools",
}
_MODULES = ("errors", "telemetry")

__all__ = [
    "SYSTEM_CLOCK",
    "Act",
    "Action",
    "ActionDimension",
    "ActionGroup",
    "ActionGuard",
    "ActionSource",
    "Agent",
    "AgentLimits",
    "ChunkArrival",
    "ChunkBuffer",
    "ChunkFailure",
    "Client",
    "Clock",
    "Command",
    "ControlLoop",
    "Done",
    "Episode",
    "EpisodeOptions",
    "EpisodeResult",
    "Hold",
    "HoldReason",
    "ImagePart",
    "Message",
    "MonotonicClock",
    "Observation",
    "ObservationKey",
    "PolicyObservation",
    "PolicyResult",
    "PolicySource",
    "PolicySpec",
    "PolicyStream",
    "Range",
    "RequestTiming",
    "Robot",
    "RobotSdkError",
    "RunningEpisode",
    "TextPart",
    "Tick",
    "TlsConfig",
    "ToolCall",
    "ToolRegistry",
    "ToolResult",
    "ToolSpec",
    "TurnResult",
    "Verdict",
    "VirtualClock",
    "__version__",
    "connect",
    "errors",
    "finish",
    "run_episode",
    "telemetry",
    "tool",
]


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _HOME:
        return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
