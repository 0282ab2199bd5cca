"""Checkpoints: every array is checked by name, and nothing is unpickled."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from robot_sdk.errors import InvalidArgumentError
from server.policy.flow.checkpoint import (
    DEFAULT_CHECKPOINT,
    expected_shapes,
    load_checkpoint,
    save_checkpoint,
)
from server.policy.flow.features import FEATURE_NAMES, FEATURES_VERSION
from tests.unit.server.policy.flow.helpers import METADATA, random_arrays


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "policy.npz"
    save_checkpoint(path, random_arrays(), METADATA)
    return path


def _rewrite(path: Path, change: dict[str, np.ndarray | None]) -> None:
    with np.load(path, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    arrays.update({k: v for k, v in change.items() if v is not None})
    for name in (k for k, v in change.items() if v is None):
        del arrays[name]
    np.savez(path, **arrays)


def test_arrays_and_metadata_come_back(path: Path) -> None:
    arrays, metadata = load_checkpoint(path)
    assert metadata == METADATA
    for name, array in random_arrays().items():
        assert arrays[name].dtype == np.float32
        np.testing.assert_allclose(arrays[name], array, rtol=2e-3, atol=1e-4)


@pytest.mark.parametrize("name", ["input.weight", "blocks.1.bias", "action_std"])
def test_a_missing_array_is_named(path: Path, name: str) -> None:
    _rewrite(path, {name: None})
    with pytest.raises(InvalidArgumentError, match=f"'{name}' is missing"):
        load_checkpoint(path)


def test_an_unknown_array_is_named(path: Path) -> None:
    _rewrite(path, {"blocks.9.weight": np.zeros((2, 2), np.float16)})
    with pytest.raises(InvalidArgumentError, match=r"unknown array 'blocks\.9\.weight'"):
        load_checkpoint(path)


def test_a_wrong_shape_is_named_with_the_right_one(path: Path) -> None:
    _rewrite(path, {"output.bias": np.zeros(3, np.float16)})
    with pytest.raises(InvalidArgumentError, match=r"'output.bias' has shape \(3,\).*\(70,\)"):
        load_checkpoint(path)


def test_weights_that_are_not_finite_are_named(path: Path) -> None:
    _rewrite(path, {"output.bias": np.full(70, np.nan, np.float16)})
    with pytest.raises(InvalidArgumentError, match=r"'output.bias'.*not finite"):
        load_checkpoint(path)


def test_other_features_are_refused(tmp_path: Path) -> None:
    for metadata in (
        replace(METADATA, features_version=FEATURES_VERSION + 1),
        replace(METADATA, feature_names=FEATURE_NAMES[::-1]),
    ):
        path = tmp_path / "other.npz"
        save_checkpoint(path, random_arrays(), metadata)
        with pytest.raises(InvalidArgumentError, match="other features"):
            load_checkpoint(path)


def test_pickled_arrays_are_refused(path: Path) -> None:
    _rewrite(path, {"output.bias": np.array([object()], dtype=object)})
    with pytest.raises(InvalidArgumentError, match="cannot read"):
        load_checkpoint(path)


@pytest.mark.parametrize("content", [b"", b"not a zip file"])
def test_a_file_that_is_no_archive_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "broken.npz"
    path.write_bytes(content)
    with pytest.raises(InvalidArgumentError, match="checkpoint"):
        load_checkpoint(path)


def test_a_single_array_is_no_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "one.npy"
    np.save(path, np.zeros(3))
    with pytest.raises(InvalidArgumentError, match="checkpoint"):
        load_checkpoint(path)


def test_a_missing_file_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"sim\.libero\.train\.train"):
        load_checkpoint(tmp_path / "absent.npz")


def test_the_checkpoint_of_the_project_is_small_and_loads() -> None:
    arrays, metadata = load_checkpoint(DEFAULT_CHECKPOINT)
    assert DEFAULT_CHECKPOINT.stat().st_size < 2_000_000
    assert set(arrays) == set(expected_shapes(metadata))
    assert metadata.horizon == 10
    assert metadata.num_demonstrations > 0
