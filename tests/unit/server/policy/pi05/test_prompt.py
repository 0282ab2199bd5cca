from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from robot_sdk.errors import InvalidArgumentError
from server.policy.pi05.prompt import Tokenizer, bin_state, encode_prompt, render_prompt
from server.policy.pi05.recipe import load_recipe


def test_state_falls_into_the_bins_of_training() -> None:
    edges = np.linspace(-1, 1, 257)[:-1]
    state = np.array([-1.5, -1.0, edges[1], 0.0, 0.9999, 1.0, 3.0], dtype=np.float32)

    assert bin_state(state) == [-1, 0, 1, 128, 255, 255, 255]
    assert bin_state(state) == list(np.digitize(state, edges) - 1)


def test_the_prompt_with_state_reads_as_published() -> None:
    template = load_recipe("libero-lerobot").prompt_template

    text = render_prompt(template, " pick_up the\nmilk ", np.array([0.0, 1.0], dtype=np.float32))

    assert text == "Task: pick up the milk, State: 128 255;\nAction: "


def test_the_prompt_without_state_is_the_bare_text_and_a_line_end(tokenizer_path: Path) -> None:
    recipe, tokenizer = load_recipe("libero-openpi"), Tokenizer(tokenizer_path, 512)

    text = render_prompt(recipe.prompt_template, "pick up the milk", None)
    ids = encode_prompt(tokenizer, text, recipe.prompt_end, recipe.max_prompt_tokens)

    assert text == "pick up the milk"
    assert ids[0] == tokenizer.begin
    assert ids[1:-1] == tokenizer.encode("pick up the milk")
    assert ids[-1:] == tokenizer.encode("\n")


def test_braces_in_an_instruction_are_words() -> None:
    text = render_prompt("{task}|{state}", "take {state} and {0}", np.zeros(1, np.float32))

    assert text == "take {state} and {0}|128"


def test_a_prompt_that_just_fits_is_taken_and_a_longer_one_refused(tokenizer_path: Path) -> None:
    tokenizer = Tokenizer(tokenizer_path, 512)
    length = len(encode_prompt(tokenizer, "pick up the milk", "\n", 200))

    assert len(encode_prompt(tokenizer, "pick up the milk", "\n", length)) == length
    with pytest.raises(InvalidArgumentError) as raised:
        encode_prompt(tokenizer, "pick up the milk", "\n", length - 1)
    assert raised.value.field == "instruction"
    assert raised.value.value == f"{length} tokens"
    assert f"{length - 1} tokens or fewer" in raised.value.allowed[0]


def test_a_prompt_of_a_megabyte_is_refused_without_making_others_wait_for_its_tokens(
    tokenizer_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer = Tokenizer(tokenizer_path, 257_152)

    def encode(text: str) -> list[int]:
        raise AssertionError("it was turned into tokens")

    monkeypatch.setattr(tokenizer, "encode", encode)
    with pytest.raises(InvalidArgumentError, match="1048576 characters"):
        encode_prompt(tokenizer, "a" * (1 << 20), "", 200)


def test_any_script_is_encoded(tokenizer_path: Path) -> None:
    tokenizer = Tokenizer(tokenizer_path, 512)

    assert tokenizer.encode("把牛奶放进篮子 🥛")


def test_a_tokenizer_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    broken = tmp_path / "broken.model"
    broken.write_bytes(b"nothing of the kind")

    for path in (broken, tmp_path / "absent.model"):
        with pytest.raises(InvalidArgumentError, match="tokenizer cannot be read"):
            Tokenizer(path, 512)


def test_a_tokenizer_with_more_pieces_than_embeddings_is_refused(tokenizer_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="more pieces than the model has embeddings"):
        Tokenizer(tokenizer_path, 100)
