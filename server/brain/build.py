"""From the configuration to the brain's engine."""

from __future__ import annotations

from robot_sdk.clock import Clock
from server.brain.interface import BrainEngine
from server.brain.openai_engine.build import build_openai_engine
from server.brain.vllm_engine.engine import VllmEngine
from server.brain.vllm_engine.settings import load_frame
from server.brain.worker_engine import WorkerEngine
from server.config import Config

_DEMO_PLANNER = "server.brain.demo_planner:DemoPlanner"


def build_brain(config: Config, clock: Clock) -> BrainEngine:
    """The engine that brain.engine names. Nothing is started or loaded yet."""
    section = config.brain
    if section.engine == "openai":
        return build_openai_engine(config, clock)
    if section.engine == "vllm":
        return VllmEngine(
            load_frame(config), max_output_bytes=section.max_output_bytes, clock=clock
        )
    return WorkerEngine(
        {
            "factory": section.factory if section.engine == "factory" else _DEMO_PLANNER,
            "options": section.options,
            "delay_s": section.delay_s,
        },
        max_running=section.max_running_turns,
        max_output_bytes=section.max_output_bytes,
        clock=clock,
    )
