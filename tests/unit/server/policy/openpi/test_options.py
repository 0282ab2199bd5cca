from __future__ import annotations

import pytest

from robot_sdk.errors import InvalidArgumentError
from server.policy.openpi.options import parse_options, read_api_key

STATE = {"key": "observation/state", "to": "observation/state", "width": 8}
PICTURE = {"key": "images/front", "to": "observation/image"}
ROW = {"name": "x", "unit": "m", "frame": "world", "mode": "delta", "minimum": -1, "maximum": 1}


def options(**changes):
    table = {"url": "ws://host:8000", "state": [STATE], "pictures": [PICTURE]}
    if "action" not in changes:
        table["recipe"] = "libero-openpi"
    return {**table, **changes}


def test_a_recipe_says_how_the_actions_are_used_unless_the_options_do():
    spec = parse_options(options(executed_steps=3)).spec()

    assert (spec.action_dim, spec.horizon, spec.executed_steps) == (7, 10, 3)
    assert (spec.control_hz, spec.embodiments) == (20.0, ("libero-panda",))
    assert [(k.name, k.shape, k.is_image) for k in spec.observation_keys] == [
        ("images/front", (0, 0), True),
        ("observation/state", (8,), False),
    ]


def test_a_policy_without_a_recipe_is_described_by_its_options():
    spec = parse_options(options(action=[ROW], horizon=4, executed_steps=2, control_hz=10)).spec()

    assert (spec.action_dim, spec.horizon, spec.control_hz) == (1, 4, 10.0)
    assert spec.action_dimensions[0].maximum == 1.0


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"url": "http://host:8000"}, "url"),
        ({"url": "ws://user:secret@host"}, "url"),
        ({"url": 3}, "url"),
        ({"recipe": "no-such-recipe"}, "recipe"),
        ({"state": [{**STATE, "widht": 8}]}, "widht"),
        ({"state": [{**STATE, "width": 0}]}, "state"),
        ({"state": [STATE, STATE]}, "state"),
        ({"state": [], "pictures": []}, "pictures"),
        ({"pictures": [PICTURE, {**PICTURE, "key": "images/wrist"}]}, "pictures"),
        ({"pictures": [{**PICTURE, "to": "observation/state"}]}, "pictures"),
        ({"pictures": [{**PICTURE, "to": "prompt"}]}, "pictures"),
        ({"pictures": [{**PICTURE, "height_px": 224}]}, "pictures"),
        ({"pictures": [{**PICTURE, "layout": "hcw"}]}, "layout"),
        ({"action": [ROW], "horizon": 4, "executed_steps": 5, "control_hz": 10}, "executed_steps"),
        ({"action": [ROW], "executed_steps": 1, "control_hz": 10}, "horizon"),
        ({"action": [], "horizon": 4, "executed_steps": 1, "control_hz": 10}, "action"),
        ({"control_hz": float("nan")}, "control_hz"),
        ({"actions_keys": []}, "actions_keys"),
        ({"prompt_key": ""}, "prompt_key"),
        ({"connections": 0}, "connections"),
        ({"timeout_s": 0}, "timeout_s"),
        ({"ca_file": "no-such-file"}, "ca_file"),
        ({"promt_key": "x"}, "prompt_key"),
    ],
)
def test_an_option_that_cannot_work_is_named(changes, named):
    with pytest.raises(InvalidArgumentError, match=named):
        parse_options(options(**changes))


def test_the_key_comes_from_the_environment(monkeypatch):
    monkeypatch.setenv("POLICY_KEY", " k-1 ")

    assert read_api_key(parse_options(options())) == ""
    assert read_api_key(parse_options(options(api_key_env="POLICY_KEY"))) == "k-1"
    monkeypatch.setenv("POLICY_KEY", "a\nb")
    with pytest.raises(InvalidArgumentError, match="POLICY_KEY"):
        read_api_key(parse_options(options(api_key_env="POLICY_KEY")))
