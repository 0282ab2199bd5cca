from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save_file

from robot_sdk.errors import InvalidArgumentError
from server.policy.pi05.normalisation import METHODS, Method, load_normaliser, make_normaliser

STATS = {
    "q01": [-2.0, 0.0, 5.0],
    "q99": [2.0, 10.0, 5.0],
    "mean": [0.5, 4.0, 5.0],
    "std": [1.5, 2.0, 0.0],
}


def openpi_file(folder: Path, stats: dict[str, list[float]] = STATS) -> Path:
    path = folder / "norm_stats.json"
    path.write_text(json.dumps({"norm_stats": {"state": stats, "actions": stats}}))
    return path


@given(
    method=st.sampled_from(METHODS),
    low=st.lists(st.floats(-100, 100), min_size=3, max_size=3),
    spread=st.lists(st.floats(0.01, 100), min_size=3, max_size=3),
    values=st.lists(st.floats(-100, 100), min_size=3, max_size=3),
)
def test_there_and_back(
    method: Method, low: list[float], spread: list[float], values: list[float]
) -> None:
    marks = np.array(low), np.array(low) + spread if method == "quantile" else np.array(spread)
    normaliser = make_normaliser(method, *marks, epsilon=1e-6)

    back = normaliser.restore(normaliser.normalise(np.array(values)))

    assert np.allclose(back, values, atol=1e-3)


def test_quantiles_become_plus_and_minus_one(tmp_path: Path) -> None:
    normaliser = load_normaliser(openpi_file(tmp_path), "state", "quantile", 2, 0.0)

    assert normaliser.normalise(np.array([[-2.0, 0.0], [2.0, 10.0], [0.0, 5.0]])).tolist() == [
        [-1.0, -1.0],
        [1.0, 1.0],
        [0.0, 0.0],
    ]


def test_mean_and_deviation_become_zero_and_one(tmp_path: Path) -> None:
    normaliser = load_normaliser(openpi_file(tmp_path), "action", "mean_std", 2, 0.0)

    assert normaliser.normalise(np.array([[0.5, 4.0], [2.0, 6.0]])).tolist() == [[0, 0], [1, 1]]


@pytest.mark.parametrize("method", METHODS)
def test_a_dimension_that_never_moved_does_not_divide_by_zero(
    tmp_path: Path, method: Method
) -> None:
    normaliser = load_normaliser(openpi_file(tmp_path), "state", method, 3, 1e-6)

    assert np.isfinite(normaliser.normalise(np.array([0.0, 0.0, 5.0]))).all()


@pytest.mark.parametrize("method", METHODS)
def test_files_of_both_projects_say_the_same(tmp_path: Path, method: Method) -> None:
    lerobot_json = tmp_path / "stats.json"
    lerobot_json.write_text(json.dumps({"observation.state": STATS, "action": STATS}))
    lerobot_tensors = tmp_path / "normalizer.safetensors"
    flat = {
        f"{key}.{field}": np.array(values, dtype=np.float32)
        for key in ("observation.state", "action")
        for field, values in STATS.items()
    }
    save_file(flat, lerobot_tensors)

    loaded = [
        load_normaliser(path, "action", method, 3, 1e-8)
        for path in (openpi_file(tmp_path), lerobot_json, lerobot_tensors)
    ]

    for other in loaded[1:]:
        assert np.allclose(other.offset, loaded[0].offset)
        assert np.allclose(other.scale, loaded[0].scale)


@pytest.mark.parametrize(
    ("stats", "message"),
    [
        ({"mean": [0.0] * 3, "std": [1.0] * 3}, "state has no q01"),
        ({"q01": [0.0] * 2, "q99": [1.0] * 2}, "allowed: 3 finite numbers"),
        ({"q01": [0.0, float("nan"), 0.0], "q99": [1.0] * 3}, "allowed: 3 finite numbers"),
        ({"q01": ["a"] * 3, "q99": [1.0] * 3}, "q01 of state holds no numbers"),
        ({"q01": [[1.0], [1.0, 2.0]], "q99": [1.0] * 3}, "q01 of state holds no numbers"),
        ({"q01": {}, "q99": [1.0] * 3}, "q01 of state holds no numbers"),
        ({"q01": [0.0, 1.0, 0.0], "q99": [1.0, 0.0, 1.0]}, "not above 0 in dimension 1"),
        ({"q01": [0.0, 0.0, 1.0], "q99": [1.0, 1.0, 1.0]}, "not above 0 in dimension 2"),
    ],
)
def test_statistics_that_do_not_do_are_refused_by_name(
    tmp_path: Path, stats: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        load_normaliser(openpi_file(tmp_path, stats), "state", "quantile", 3, 0.0)


@pytest.mark.parametrize(
    "content", ["", "[]", '{"norm_stats": 3}', '{"rewards": {}}', "[" * 100_000]
)
def test_a_file_without_statistics_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "norm_stats.json"
    path.write_text(content)

    with pytest.raises(InvalidArgumentError, match=r"norm_stats\.json has no statistics"):
        load_normaliser(path, "state", "quantile", 3, 0.0)
