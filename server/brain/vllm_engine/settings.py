"""From the configuration to the `load` frame of the worker, and from that to vLLM's arguments."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from robot_sdk.errors import nearest
from server.config import Config, ConfigError
from server.sections.vllm import ENGINE_ARGUMENTS, VllmSection

#: Endpoint that vLLM is told when spans go to a file alone: it records none without one.
NO_COLLECTOR = "http://127.0.0.1:4317"
#: Turns are taken by the robots' slack. vLLM's default loggers stay off; ours takes their place.
_FIXED: dict[str, Any] = {"scheduling_policy": "priority", "disable_log_stats": True}


class SettingError(Exception):
    """A setting is wrong in a way that only the worker can see. The message is one line."""


def load_frame(config: Config) -> dict[str, Any]:
    """What the worker is told at every start.

    Raises:
        ConfigError: vllm.model is missing, or is a path and no folder.
    """
    section = config.vllm
    _check_model(section)
    telemetry = config.telemetry
    return {
        "model_name": Path(section.model).name if _is_path(section.model) else section.model,
        "engine_args": engine_arguments(section),
        "chat_template": section.chat_template,
        "chat_template_kwargs": section.chat_template_kwargs,
        "tool_call_parser": section.tool_call_parser,
        "reasoning_parser": section.reasoning_parser,
        "tool_calls": section.tool_calls,
        "temperature": section.temperature,
        "top_p": section.top_p,
        "max_output_tokens": section.max_output_tokens,
        "context_policy": section.context_policy,
        "compact_to_share": section.compact_to_share,
        "max_images": section.max_images,
        "delay_s": config.brain.delay_s,
        "telemetry": {
            "service": f"{telemetry.service}-vllm",
            "run_folder": telemetry.run_folder,
            "otlp_endpoint": telemetry.otlp_endpoint,
        },
    }


def engine_arguments(section: VllmSection) -> dict[str, Any]:
    """Arguments of vLLM's AsyncEngineArgs. What the section leaves open is left out.

    Raises:
        ConfigError: engine_args holds one that has a setting of its own, or one that is fixed.
    """
    arguments: dict[str, Any] = {"model": section.model, **_FIXED}
    if section.tokenizer:
        arguments["tokenizer"] = section.tokenizer
    for name in ENGINE_ARGUMENTS:
        value = getattr(section, name)
        if value is not None:
            arguments[name] = value
    interval = section.prefix_cache_retention_interval
    if interval is not None:
        # vLLM says None for every snapshot, which a TOML file cannot.
        arguments["prefix_cache_retention_interval"] = None if interval < 0 else interval
    if section.max_images is not None:
        arguments["limit_mm_per_prompt"] = {"image": section.max_images}
    if section.kv_offload_gib is not None:
        arguments["kv_offloading_size"] = section.kv_offload_gib
        arguments["kv_offloading_backend"] = "native"
    if section.reasoning_parser:
        arguments["reasoning_parser"] = section.reasoning_parser
    for name, value in section.engine_args.items():
        if name in arguments or name in ENGINE_ARGUMENTS:
            raise ConfigError(f"vllm.engine_args.{name} is {value!r}; write {_instead(name)}")
        arguments[name] = value
    return arguments


def check_names(arguments: Mapping[str, Any], known: Collection[str]) -> None:
    """Hold the names of arguments against the fields of the vLLM that is installed.

    Raises:
        SettingError: Names the nearest ones.
    """
    for name in arguments:
        if name not in known:
            near = nearest(name, known)
            hint = f"; did you mean {', '.join(near)}?" if near else ""
            raise SettingError(f"vllm.engine_args.{name} is no argument of this vLLM{hint}")


def _instead(name: str) -> str:
    return f"nothing: it is fixed to {_FIXED[name]!r}" if name in _FIXED else f"vllm.{name} instead"


def _check_model(section: VllmSection) -> None:
    if not section.model:
        raise ConfigError(
            'brain.engine is "vllm", and vllm.model is empty; allowed: the folder of a model, or '
            "its name at a hub"
        )
    if _is_path(section.model) and not (Path(section.model) / "config.json").is_file():
        raise ConfigError(
            f"vllm.model is {section.model!r}; allowed: the folder of a model (with config.json), "
            "or its name at a hub"
        )


def _is_path(model: str) -> bool:
    """A hub's names have at most one slash, inside."""
    return model.startswith(("/", ".", "~")) or model.count("/") > 1 or Path(model).exists()
