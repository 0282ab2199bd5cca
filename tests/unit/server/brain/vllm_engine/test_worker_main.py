"""What is said of a vLLM that cannot start."""

from __future__ import annotations

from server.brain.vllm_engine.worker_main import load_problem


def test_an_engine_process_that_ended_is_not_blamed_on_the_model() -> None:
    error = RuntimeError("Engine core initialization failed. See root cause above. Failed: {}")

    problem = load_problem("out/tiny", error)

    assert "KV cache is too small for max_model_len, set vllm.max_model_len lower" in problem
    assert "too little memory is free, vllm.gpu_memory_utilization" in problem
    assert "does not take" not in problem


def test_another_error_of_vllm_is_told_with_the_model() -> None:
    problem = load_problem("out/tiny", ValueError("no\nconfig"))

    assert problem == "vLLM does not take vllm.model 'out/tiny': ValueError: no config"
