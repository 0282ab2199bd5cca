"""What is said while vLLM is started."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("vllm", reason="vLLM is not installed; see `make setup`")

from server.brain.vllm_engine import loading

pytestmark = [pytest.mark.vllm, pytest.mark.filterwarnings("ignore")]


def test_e7_spans_that_vllm_cannot_record_are_stated_and_the_rest_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(loading, "is_tracing_available", lambda: False)
    settings = {"service": "server-vllm", "run_folder": str(tmp_path), "otlp_endpoint": ""}
    arguments = {"model": "tiny"}

    with caplog.at_level(logging.WARNING):
        telemetry = loading._tracing(settings, arguments)

    assert telemetry is None
    assert arguments == {"model": "tiny"}
    assert "no spans of vLLM itself" in caplog.text
    assert "pip install opentelemetry-exporter-otlp" in caplog.text


@pytest.mark.parametrize(
    ("caches", "num_engines", "can_refresh"),
    [(True, 1, True), (False, 1, False), (None, 1, False), (True, 2, False)],
)
def test_prefixes_can_be_touched_where_there_is_one_cache_of_them(
    caches: bool | None, num_engines: int, can_refresh: bool
) -> None:
    """With several engines a request may come to another one than the episode's turns."""
    config = SimpleNamespace(
        cache_config=SimpleNamespace(enable_prefix_caching=caches),
        parallel_config=SimpleNamespace(data_parallel_size=num_engines),
    )
    engine: Any = SimpleNamespace(vllm_config=config)

    assert loading._can_refresh(engine) is can_refresh
