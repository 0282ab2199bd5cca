"""The ready configurations load, and vLLM itself accepts what they say."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from server.brain.vllm_engine.settings import engine_arguments
from server.config import load

PROFILES = sorted((Path(__file__).parents[3] / "server" / "profiles").glob("*.toml"))


def test_there_is_a_profile_of_the_studys_set_up() -> None:
    assert "qwen3.6-27b-4xh800" in [profile.stem for profile in PROFILES]


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.stem)
def test_a_profile_is_a_valid_configuration(profile: Path) -> None:
    config = load(profile)

    assert config.brain.engine == "vllm"
    assert config.server.roles == ["brain"]
    assert not config.policies


@pytest.mark.vllm
@pytest.mark.timeout(600)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.stem)
def test_vllm_accepts_the_arguments_of_a_profile(
    profile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arg_utils = pytest.importorskip("vllm.engine.arg_utils", reason="vLLM is not installed")
    # Offline, vLLM would look for the weights at once; only its arguments are asked about here.
    monkeypatch.setattr(arg_utils.huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    arguments = engine_arguments(load(profile).vllm)
    fields = {field.name for field in dataclasses.fields(arg_utils.AsyncEngineArgs)}
    assert set(arguments) <= fields

    command_line = []
    for name, value in arguments.items():
        option = f"--{name.replace('_', '-')}"
        if isinstance(value, bool):
            command_line.append(option if value else f"--no-{option[2:]}")
        else:
            command_line += [option, str(value)]
    parser = arg_utils.AsyncEngineArgs.add_cli_args(FlexibleArgumentParser())
    parsed = arg_utils.AsyncEngineArgs.from_cli_args(parser.parse_args(command_line))

    for name, value in arguments.items():
        assert getattr(parsed, name) == value, name


@pytest.mark.vllm
@pytest.mark.filterwarnings("ignore")
def test_the_parsers_that_a_profile_names_exist_in_vllm() -> None:
    pytest.importorskip("vllm", reason="vLLM is not installed")
    from vllm.reasoning import ReasoningParserManager
    from vllm.tool_parsers import ToolParserManager

    for profile in PROFILES:
        section = load(profile).vllm
        assert section.tool_call_parser in ToolParserManager.list_registered()
        assert section.reasoning_parser in ReasoningParserManager.list_registered()
