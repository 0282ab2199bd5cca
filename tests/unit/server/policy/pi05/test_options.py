from __future__ import annotations

import builtins
import dataclasses
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from robot_sdk.errors import InvalidArgumentError, MissingExtraError
from server.policy.pi05 import factory
from server.policy.pi05.config import PUBLIC, TINY
from server.policy.pi05.options import parse_options
from server.policy.pi05.policy import Pi05Policy
from server.policy.registry import factory_path
from server.worker.factory import FactoryError, build

GOOD: dict[str, Any] = {
    "recipe": "libero-openpi",
    "checkpoint": "weights",
    "tokenizer": "tokenizer.model",
    "stats": "norm_stats.json",
}


def widths(**changes: Any) -> dict[str, Any]:
    """The tiny size as a table, with changes to fields or to fields of a part."""
    table = dataclasses.asdict(TINY)
    for name, change in changes.items():
        table[name] = table[name] | change if isinstance(change, dict) else change
    return table


def test_what_is_needed_is_enough() -> None:
    options = parse_options(GOOD)

    assert options.size is PUBLIC
    assert not options.random_weights


@pytest.mark.parametrize("missing", ["recipe", "checkpoint", "tokenizer", "stats"])
def test_a_missing_option_is_named(missing: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"option {missing} is missing"):
        parse_options({key: value for key, value in GOOD.items() if key != missing})


def test_random_weights_are_never_had_by_leaving_something_out() -> None:
    without = {key: value for key, value in GOOD.items() if key != "checkpoint"}

    with pytest.raises(InvalidArgumentError, match="random weights must be asked for"):
        parse_options(without)
    assert parse_options(without | {"random_weights": True}).random_weights
    with pytest.raises(InvalidArgumentError, match="one of the two"):
        parse_options(GOOD | {"random_weights": True})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"chekpoint": "x"}, r"no such option.*did you mean checkpoint\?"),
        ({"size": ["tiny"]}, "option size is "),
        ({"size": "huge"}, "option size is 'huge'; allowed: public, tiny, a table of widths"),
        ({"size": dataclasses.asdict(TINY) | {"widht": 3}}, "size table: widht is not a field"),
        ({"size": {"vision": dataclasses.asdict(TINY.vision)}}, "size table: prefix is missing"),
        ({"size": widths(vision={"patch_px": 0})}, r"vision\.patch_px: is too small \(got 0\)"),
        ({"size": widths(vision={"patch_px": 5})}, r"patch_px.*got 5.*divisors of .*image_px, 28"),
        ({"size": widths(expert={"width": 15})}, r"expert\.width: is odd \(got 15\)"),
        ({"size": widths(expert={"depth": 3})}, r"expert\.depth: .*got 3\); allowed: 2"),
        ({"size": widths(min_period=0.0)}, "min_period, max_period: are no periods"),
        ({"dtype": "float16"}, "option dtype is 'float16'; allowed: bfloat16, float32"),
        ({"num_flow_steps": -1}, "option num_flow_steps is -1"),
        ({"num_flow_steps": "5"}, "option num_flow_steps is '5'; allowed: int"),
        ({"batch_buckets": [4, 2]}, r"option batch_buckets is \(4, 2\)"),
        ({"batch_buckets": [0, 2]}, r"option batch_buckets is \(0, 2\)"),
        ({"batch_buckets": 4}, "allowed: a list of whole numbers"),
        ({"prefix_batch": 0}, "option prefix_batch is 0"),
        ({"recipe": "nothing"}, "there is no such recipe"),
        ({"recipe": 3}, "option recipe is 3; allowed: str"),
    ],
)
def test_a_wrong_option_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        parse_options(GOOD | changes)


def test_only_random_weights_do_without_a_tokenizer() -> None:
    without = {key: value for key, value in GOOD.items() if key not in ("tokenizer", "checkpoint")}

    assert parse_options(without | {"random_weights": True}).tokenizer == ""
    with pytest.raises(InvalidArgumentError, match="option tokenizer is missing"):
        parse_options(without | {"checkpoint": "weights"})


def test_widths_of_your_own_are_given_as_a_table() -> None:
    assert parse_options(GOOD | {"size": dataclasses.asdict(TINY)}).size == TINY


def test_the_kind_is_registered_and_says_what_is_wrong_in_one_line() -> None:
    with pytest.raises(FactoryError, match="option checkpoint is missing") as raised:
        build(factory_path("pi05", ""), {"recipe": "libero-openpi", "tokenizer": "x"})
    assert "\n" not in str(raised.value)


def test_a_missing_package_is_told_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    real_import = builtins.__import__

    def without_sentencepiece(name: str, *rest: Any, **fields: Any) -> Any:
        if name == "sentencepiece":
            raise ModuleNotFoundError("No module named 'sentencepiece'", name="sentencepiece")
        return real_import(name, *rest, **fields)

    for name in ("server.policy.pi05.policy", "server.policy.pi05.prompt"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(builtins, "__import__", without_sentencepiece)

    with pytest.raises(
        MissingExtraError, match=r"needs sentencepiece.*pip install -e '\.\[pi05\]'"
    ):
        factory.create(**GOOD)


def test_a_device_that_is_not_there_is_named(tokenizer_path: Path) -> None:
    options = parse_options(
        {
            "recipe": "libero-openpi",
            "tokenizer": str(tokenizer_path),
            "random_weights": True,
            "size": "tiny",
            "device": f"cuda:{torch.cuda.device_count()}",
        }
    )

    with pytest.raises(InvalidArgumentError, match=r"device.*allowed: cpu"):
        Pi05Policy.load(options)


@pytest.mark.parametrize(
    ("num_cores", "environment", "option", "expected"),
    [
        (2, None, 0, 1),
        (12, None, 0, 6),
        (64, None, 0, 8),
        (12, "3", 0, None),
        (12, "3", 5, 5),
    ],
)
def test_threads_leave_room_for_the_server_unless_they_are_named(
    monkeypatch: pytest.MonkeyPatch,
    num_cores: int,
    environment: str | None,
    option: int,
    expected: int | None,
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(num_cores)), raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if environment is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", environment)
    asked: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", asked.append)

    Pi05Policy.load(
        parse_options(
            {
                "recipe": "libero-openpi",
                "random_weights": True,
                "size": "tiny",
                "device": "cpu",
                "num_threads": option,
            }
        )
    )

    assert asked == ([] if expected is None else [expected])
