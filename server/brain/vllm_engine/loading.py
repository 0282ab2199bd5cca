"""Starts vLLM in the worker. The only module here that imports vLLM when it is imported."""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Mapping
from typing import Any

from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.tracing import is_tracing_available
from vllm.v1.engine.async_llm import AsyncLLM

from robot_sdk.telemetry import Telemetry, start
from server.brain.interface import EngineInfo
from server.brain.vllm_engine.engine import ENGINE_NAME
from server.brain.vllm_engine.host import Host
from server.brain.vllm_engine.model import HostedModel
from server.brain.vllm_engine.requests import SamplingDefaults
from server.brain.vllm_engine.settings import NO_COLLECTOR, check_names
from server.brain.vllm_engine.snapshots import snapshot_interval_tokens
from server.brain.vllm_engine.stats import LoadLogger
from server.worker.stream import FrameStream

_log = logging.getLogger(__name__)


async def load_host(
    load: Mapping[str, Any], stream: FrameStream
) -> tuple[AsyncLLM, Host, dict[str, Any], Telemetry | None]:
    """Load the model; blocks the running loop until it is there, as AsyncLLM does.

    Returns:
        The engine, its host, the fields of EngineInfo, and where the engine's spans go.

    Raises:
        SettingError: An argument that this vLLM does not have.
        RobotSdkError: The model's chat template or a parser cannot be used.
        Exception: Whatever vLLM finds wrong.
    """
    arguments = dict(load["engine_args"])
    check_names(arguments, {field.name for field in dataclasses.fields(AsyncEngineArgs)})
    telemetry = _tracing(load["telemetry"], arguments)
    load_logger = LoadLogger()
    engine = AsyncLLM.from_engine_args(
        AsyncEngineArgs(**arguments), stat_loggers=[lambda _config, _index: load_logger]
    )
    try:
        model = HostedModel(engine, load)
        sampling = SamplingDefaults(
            model=engine.model_config.get_diff_sampling_param(),
            temperature=load["temperature"],
            top_p=load["top_p"],
            max_output_tokens=load["max_output_tokens"],
            forbidden_ids=model.renderer.forbidden_output_ids,
        )
        interval_tokens = await snapshot_interval_tokens(engine)
    except BaseException:
        engine.shutdown(0.0)
        raise
    cache = engine.vllm_config.cache_config
    info = EngineInfo(
        engine=ENGINE_NAME,
        model=load["model_name"],
        max_context_tokens=model.max_model_len,
        accepts_images=model.takes_images,
        reports_cached_tokens=True,
        pool_blocks=cache.num_gpu_blocks,
        block_tokens=cache.block_size,
        snapshot_interval_tokens=interval_tokens,
        can_refresh=_can_refresh(engine),
    )
    host = Host(engine, info, model, sampling, load_logger, stream, load["delay_s"])
    return engine, host, vars(info), telemetry


def _can_refresh(engine: AsyncLLM) -> bool:
    """Whether a request finds the one cache that an episode's prefix can be in."""
    config = engine.vllm_config
    has_one_cache = config.parallel_config.data_parallel_size == 1
    return bool(config.cache_config.enable_prefix_caching) and has_one_cache


def _tracing(settings: Mapping[str, str], arguments: dict[str, Any]) -> Telemetry | None:
    """Let vLLM's spans join the episode's trace and go where the server's go.

    vLLM uses the global tracer provider if there is one, and records nothing unless it is told of
    a collector. Without one, its other processes, which would send their own spans there, are told
    to record none.
    """
    if not settings["run_folder"] and not settings["otlp_endpoint"]:
        return None
    if not is_tracing_available():
        _log.warning(
            "there will be no spans of vLLM itself in the traces; they need the OpenTelemetry "
            "exporters: pip install opentelemetry-exporter-otlp"
        )
        return None
    telemetry = start(
        settings["service"],
        settings["run_folder"] or None,
        settings["otlp_endpoint"] or None,
        set_global=True,
    )
    # It tries to set a provider of its own, is refused, and a warning of that would only mislead.
    logging.getLogger("opentelemetry.trace").setLevel(logging.ERROR)
    arguments["otlp_traces_endpoint"] = settings["otlp_endpoint"] or NO_COLLECTOR
    if not settings["otlp_endpoint"]:
        os.environ["OTEL_SDK_DISABLED"] = "true"
    return telemetry
