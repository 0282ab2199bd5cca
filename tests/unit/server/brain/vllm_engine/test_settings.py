"""From the configuration to vLLM's arguments."""

from __future__ import annotations

from pathlib import Path

import pytest

from server.brain.vllm_engine.settings import (
    SettingError,
    check_names,
    engine_arguments,
    load_frame,
)
from server.config import Config, ConfigError, from_tree
from server.sections.vllm import VllmSection


def configured(**vllm: object) -> Config:
    return from_tree({"brain": {"engine": "vllm"}, "vllm": vllm})


def test_what_is_not_set_is_left_to_vllm() -> None:
    assert engine_arguments(VllmSection(model="a/b")) == {
        "model": "a/b",
        "load_format": "auto",
        "dtype": "auto",
        "seed": 0,
        "tensor_parallel_size": 1,
        "enable_prefix_caching": True,
        "enforce_eager": False,
        "scheduling_policy": "priority",
        "disable_log_stats": True,
    }


@pytest.mark.parametrize(("interval", "told"), [(0, 0), (1568, 1568), (-1, None)])
def test_minus_one_keeps_every_snapshot(interval: int, told: int | None) -> None:
    section = VllmSection(model="a/b", prefix_cache_retention_interval=interval)

    assert engine_arguments(section)["prefix_cache_retention_interval"] == told


def test_the_switches_for_host_memory_and_pictures_have_vllms_names() -> None:
    section = VllmSection(model="a/b", kv_offload_gib=64.0, max_images=20)
    arguments = engine_arguments(section)

    assert arguments["kv_offloading_size"] == 64.0
    assert arguments["kv_offloading_backend"] == "native"
    assert arguments["limit_mm_per_prompt"] == {"image": 20}


@pytest.mark.parametrize("name", ["max_model_len", "scheduling_policy", "model"])
def test_an_argument_with_a_setting_of_its_own_is_not_taken_twice(name: str) -> None:
    with pytest.raises(ConfigError, match=f"vllm.engine_args.{name}"):
        engine_arguments(VllmSection(model="a/b", engine_args={name: 1}))


def test_an_argument_that_vllm_does_not_have_is_answered_with_the_nearest() -> None:
    with pytest.raises(SettingError, match=r"quantisation.*did you mean quantization"):
        check_names({"quantisation": "fp8"}, {"quantization", "model"})


def test_a_missing_model_folder_is_named_with_its_setting(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"vllm\.model is '.*nowhere'"):
        load_frame(configured(model=str(tmp_path / "nowhere")))


def test_no_model_at_all_is_named_with_its_setting() -> None:
    with pytest.raises(ConfigError, match=r"vllm\.model is empty"):
        load_frame(configured())


def test_the_name_told_to_robots_holds_no_path_of_the_server(tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    folder.mkdir()
    (folder / "config.json").write_text("{}")

    assert load_frame(configured(model=str(folder)))["model_name"] == "tiny"
    assert load_frame(configured(model="org/name"))["model_name"] == "org/name"
    assert load_frame(configured(model="name"))["model_name"] == "name"
