from __future__ import annotations

import numpy as np
import pytest

from robot_sdk.errors import BadModelOutputError
from server.policy.interface import PolicyInput
from server.policy.openpi.options import parse_options
from server.policy.openpi.translation import observation_of, output_of, remote_failure

OPTIONS = parse_options(
    {
        "url": "ws://host",
        "recipe": "libero-openpi",
        "pictures": [{"key": "images/front", "to": "observation/image", "rotate_180": True}],
        "state": [
            {"key": "observation/pos", "to": "observation/state", "width": 3},
            {"key": "observation/joints", "to": "joints", "width": 1},
            {"key": "observation/rest", "to": "observation/state", "width": 2},
        ],
        "session_id": "s",
    }
)
TWO = parse_options(
    {
        "url": "ws://host",
        "recipe": "libero-openpi",
        "state": [{"key": "s", "to": "s", "width": 1}],
        "actions_keys": ["arm", "gripper"],
    }
)


def test_an_observation_becomes_the_map_that_the_remote_policy_knows():
    picture = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    item = PolicyInput(
        "pick é",
        {
            "observation/pos": np.array([1, 2, 3], np.float32),
            "observation/rest": np.array([4, 5], np.float32),
            "observation/joints": np.array([9], np.float32),
        },
        {"images/front": picture},
        0,
        0,
    )

    sent = observation_of(item, OPTIONS)

    assert set(sent) == {"observation/image", "observation/state", "joints", "prompt", "session_id"}
    assert sent["observation/state"].tolist() == [1, 2, 3, 4, 5]
    assert sent["observation/state"].dtype == np.float32
    assert sent["joints"].tolist() == [9]
    assert (sent["prompt"], sent["session_id"]) == ("pick é", "s")
    np.testing.assert_array_equal(sent["observation/image"], picture[::-1, ::-1])


@pytest.mark.parametrize(
    "reply",
    [
        {"actions": np.full((10, 7), 0.5), "server_timing": {"infer_ms": 20.0}},
        {"actions": np.full((1, 10, 7), 0.5, np.float32), "state": np.zeros(3)},
        {"actions": np.full((10, 7), 0.5).tolist()},
        np.full((10, 7), 0.5, np.float16),
    ],
)
def test_actions_are_found_in_a_map_or_alone(reply):
    output = output_of(reply, OPTIONS)

    assert output.actions.shape == (10, 7)
    assert output.actions.dtype == np.float32
    assert (output.actions == 0.5).all()


def test_named_actions_are_joined_in_their_order():
    output = output_of({"gripper": np.ones(10), "arm": np.zeros((10, 6))}, TWO)

    assert output.actions.tolist() == [[0.0] * 6 + [1.0]] * 10


def test_actions_beyond_a_limit_are_put_on_it_where_that_is_configured():
    assert output_of(np.full((10, 7), 1.25), OPTIONS).actions.max() == 1.0


def test_a14_not_a_number_stays_one_so_that_it_is_refused():
    assert np.isnan(output_of(np.full((10, 7), np.nan), OPTIONS).actions).all()


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        ("text", "a str"),
        (None, "a NoneType"),
        ({}, "actions_keys"),
        ({"action": np.zeros((10, 7))}, "actions_keys"),
        ({"actions": [[0.0] * 7, [0.0] * 6]}, "different lengths"),
        ({"actions": "zeros"}, "dtype"),
        ({"actions": np.zeros((10, 7), bool)}, "dtype"),
        ({"type": "error", "message": "Internal inference error"}, "Internal inference error"),
    ],
)
def test_a14_what_holds_no_actions_is_refused(reply, words):
    with pytest.raises(BadModelOutputError, match=words):
        output_of(reply, OPTIONS)


def test_a14_two_arrays_of_different_lengths_are_refused():
    with pytest.raises(BadModelOutputError, match=r"arm \(16, 6\), gripper \(8, 1\)"):
        output_of({"arm": np.zeros((16, 6)), "gripper": np.zeros((8, 1))}, TWO)


def test_of_a_traceback_the_last_line_is_told():
    error = remote_failure('Traceback (most recent call last):\n  File "x.py"\nKeyError: "image"\n')

    assert 'KeyError: "image"' in str(error)
    assert "x.py" not in str(error)
    assert "does not say why" in str(remote_failure(" \n"))
