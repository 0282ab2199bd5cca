"""A brain that cannot be hosted says why in one line, and how to go on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.server.harness import Server
from tests.integration.vllm.serving import ENVIRONMENT, LOAD_PATIENCE_S, toml

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600)]


def last_words(folder: Path, configuration: str) -> str:
    server = Server(folder, configuration, wait=False)
    try:
        assert server.wait_for_exit(LOAD_PATIENCE_S) != 0
        return server.log.rstrip().rpartition("\n")[2]
    finally:
        server.close()


@pytest.fixture(autouse=True)
def quiet_vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


def test_without_vllm_the_message_holds_the_command_that_installs_it(
    text_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden = tmp_path / "hidden"
    (hidden / "vllm").mkdir(parents=True)
    (hidden / "vllm" / "__init__.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'vllm'\", name='vllm')\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(hidden))

    assert "pip install -e '.[vllm]'" in last_words(tmp_path, toml(text_model))


def test_a_model_folder_that_is_not_there_is_named_with_its_setting(tmp_path: Path) -> None:
    words = last_words(tmp_path, toml(tmp_path / "no-model"))

    assert words.startswith("error: vllm.model is ")
    assert "no-model" in words


def test_an_argument_that_vllm_does_not_have_is_answered_with_the_nearest(
    text_model: Path, tmp_path: Path
) -> None:
    words = last_words(tmp_path, toml(text_model, "[vllm.engine_args]\nquantisation = 'fp8'"))

    assert "vllm.engine_args.quantisation" in words
    assert "did you mean quantization" in words
