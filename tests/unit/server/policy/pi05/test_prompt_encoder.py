from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from robot_sdk.errors import InvalidArgumentError
from server.policy.interface import PolicyOutput
from server.policy.pi05.config import TINY
from server.policy.pi05.options import parse_options
from server.policy.pi05.policy import Pi05Policy
from server.policy.pi05.prompt_encoder import ByteEncoder
from tests.unit.server.policy.pi05.helpers import observation


def test_a_text_is_its_bytes_and_no_id_is_one_of_the_special_ones() -> None:
    encoder = ByteEncoder(TINY.vocabulary_size)

    ids = encoder.encode("a\x00\n\u00e9\ud800")

    assert ids == [byte + 3 for byte in b"a\x00\n\xc3\xa9\xed\xa0\x80"]
    assert encoder.begin not in ids
    assert max(encoder.encode("\U0010ffff")) < TINY.vocabulary_size


def test_a_table_too_small_for_the_bytes_is_refused() -> None:
    ByteEncoder(259)
    with pytest.raises(InvalidArgumentError, match=r"too few embeddings.*got 258.*259 or more"):
        ByteEncoder(258)


def test_random_weights_run_without_a_tokenizer_and_say_what_stands_in() -> None:
    policy = Pi05Policy.load(
        parse_options(
            {
                "recipe": "libero-lerobot",
                "size": "tiny",
                "random_weights": True,
                "device": "cpu",
                "num_flow_steps": 1,
            }
        )
    )
    items = [observation(1), dataclasses.replace(observation(1), instruction="open the drawer")]

    one, other = policy.infer(items)

    assert policy.spec.stand_in
    assert policy.spec.note == "Random weights, prompts as bytes."
    assert isinstance(one, PolicyOutput)
    assert isinstance(other, PolicyOutput)
    assert not np.array_equal(one.actions, other.actions)
