"""What is said while vLLM is started."""

from __future__ import annotations

import logging
from pathlib import Path

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
