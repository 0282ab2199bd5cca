"""From the configuration to the engine."""

from __future__ import annotations

from robot_sdk.clock import Clock
from server.brain.openai_engine.endpoint import Endpoint
from server.brain.openai_engine.engine import OpenAiEngine
from server.brain.openai_engine.settings import check_section, read_api_key
from server.config import Config


def build_openai_engine(config: Config, clock: Clock) -> OpenAiEngine:
    """The engine that brain.engine = "openai" names. Connects nowhere yet.

    Raises:
        ConfigError: A setting of [openai] is missing or wrong, or there is no key where it says.
    """
    check_section(config.openai)
    return OpenAiEngine(
        config.openai,
        Endpoint(config.openai, read_api_key(config.openai), clock),
        max_running=config.brain.max_running_turns,
        max_output_bytes=config.brain.max_output_bytes,
        delay_s=config.brain.delay_s,
        clock=clock,
    )
