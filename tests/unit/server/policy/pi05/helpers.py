"""Small parts of a π0.5 policy for tests."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece
import torch

from server.policy.interface import PolicyInput
from server.policy.pi05.config import TINY
from server.policy.pi05.model import Pi05Model
from server.policy.pi05.options import parse_options
from server.policy.pi05.policy import Pi05Policy
from server.policy.pi05.random_weights import random_model

CPU = torch.device("cpu")
SIDE_PX = TINY.vision.image_px
HORIZON = 6


def train_tokenizer(folder: Path) -> Path:
    """A SentencePiece model of some hundred pieces with PaliGemma's special ids."""
    verbs, things = ("pick up", "place", "open", "close"), ("milk", "basket", "drawer", "bowl")
    lines = [
        f"Task: {verb} the {thing}, State: {index} {255 - index} {index // 2};"
        for index, (verb, thing) in enumerate(itertools.product(verbs * 8, things))
    ]
    lines += ["Action: "] * 8
    model = folder / "tokenizer.model"
    with model.open("wb") as file:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=file,
            vocab_size=400,
            hard_vocab_limit=False,
            byte_fallback=True,
            add_dummy_prefix=False,
            remove_extra_whitespaces=False,
            normalization_rule_name="identity",
            user_defined_symbols=["\n"],
            pad_id=0,
            eos_id=1,
            bos_id=2,
            unk_id=3,
            minloglevel=2,
        )
    return model


def tiny_model(seed: int = 0) -> Pi05Model:
    return random_model(TINY, CPU, torch.float32, seed)


def tiny_policy(tokenizer: Path, **options: Any) -> Pi05Policy:
    defaults = {
        "recipe": "libero-lerobot",
        "tokenizer": str(tokenizer),
        "size": "tiny",
        "device": "cpu",
        "random_weights": True,
        "num_flow_steps": 3,
    }
    return Pi05Policy.load(parse_options(defaults | options))


def observation(seed: int = 0, **changes: Any) -> PolicyInput:
    """What a LIBERO robot sends."""
    rng = np.random.default_rng(seed)
    item = PolicyInput(
        instruction="pick up the milk",
        tensors={"observation/state": rng.uniform(-1, 1, 8).astype(np.float32)},
        images={
            f"images/{name}": rng.integers(0, 256, (40, 40, 3), dtype=np.uint8)
            for name in ("agentview", "wrist")
        },
        sequence=seed,
        control_step=10 * seed,
        noise_seed=7,
    )
    return dataclasses.replace(item, **changes)
