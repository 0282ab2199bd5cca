from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from robot_sdk.errors import InvalidArgumentError
from server.policy.pi05 import recipe as module
from server.policy.pi05.recipe import load_recipe, parse_recipe, shipped_recipes


def tree(**changes: Any) -> dict[str, Any]:
    path = Path(module.__file__).with_name("recipes") / "libero-openpi.json"
    return json.loads(path.read_text()) | changes


@pytest.mark.parametrize("name", shipped_recipes())
def test_shipped_recipes_load_and_make_a_spec(name: str) -> None:
    recipe = load_recipe(name)
    spec = recipe.spec()

    assert recipe.source
    assert spec.executed_steps <= spec.horizon == recipe.horizon
    assert spec.action_dim == len(recipe.action) <= 32
    assert sum(group.size for group in spec.action_groups) == spec.action_dim
    keys = [key.name for key in spec.observation_keys]
    assert keys[: len(recipe.cameras)] == [camera.key for camera in recipe.cameras]
    assert all(key.required for key in spec.observation_keys)


def test_the_known_public_checkpoints_are_there() -> None:
    assert set(shipped_recipes()) == {
        "droid-openpi",
        "libero-lerobot",
        "libero-lerobot-quantile",
        "libero-openpi",
    }


def test_public_checkpoints_differ_as_published() -> None:
    openpi, lerobot = load_recipe("libero-openpi"), load_recipe("libero-lerobot")
    droid = load_recipe("droid-openpi")

    assert (openpi.horizon, openpi.executed_steps, openpi.normalisation) == (10, 5, "quantile")
    assert (lerobot.horizon, lerobot.executed_steps, lerobot.normalisation) == (50, 10, "mean_std")
    assert (droid.horizon, droid.executed_steps, droid.control_hz) == (15, 8, 15.0)
    assert not openpi.state_in_prompt
    assert lerobot.state_in_prompt
    assert lerobot.prompt_template == "Task: {task}, State: {state};\nAction: "


def test_a_robot_need_not_send_a_state_that_the_model_does_not_hear_of() -> None:
    openpi, lerobot = load_recipe("libero-openpi").spec(), load_recipe("libero-lerobot").spec()

    assert "observation/state" not in {key.name for key in openpi.observation_keys}
    assert "observation/state" in {key.name for key in lerobot.observation_keys}


def test_a_recipe_of_your_own_is_read_by_path(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    cameras = [{"key": "images/front", "rotate_180": True, "height_px": 48, "width_px": 64}]
    path.write_text(json.dumps(tree(name="mine", cameras=cameras)))

    recipe = load_recipe(str(path))

    assert recipe.spec().name == "mine"
    assert recipe.spec().observation_keys[0].shape == (48, 64)
    assert recipe.cameras[0].rotate_180


def test_an_unknown_name_lists_those_there_are() -> None:
    with pytest.raises(InvalidArgumentError, match=r"libero-openpi.*did you mean libero-openpi\?"):
        load_recipe("libero-openpy")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "pi05-recipe/2"}, "format is 'pi05-recipe/2'; allowed: pi05-recipe/1"),
        ({"horizen": 5}, r"horizen is not a field.*did you mean horizon\?"),
        ({"horizon": "ten"}, "horizon is 'ten'; allowed: int"),
        ({"horizon": True}, "horizon is True; allowed: int"),
        ({"executed_steps": 11}, "executed_steps is 11; allowed: 1 to the horizon"),
        ({"normalisation": "max"}, "normalisation is 'max'; allowed: quantile, mean_std"),
        ({"cameras": []}, "cameras is .*; allowed: at least one"),
        ({"cameras": [{"key": "images/a", "rotate": 90}]}, r"cameras\[0\]: rotate is not a field"),
        ({"cameras": [{}]}, r"cameras\[0\]: key is missing"),
        ({"cameras": [{"key": "images/a", "height_px": 48}]}, "height_px and width_px together"),
        ({"cameras": "front"}, "cameras is 'front'; allowed: a list"),
        ({"action": [3]}, r"action\[0\] is 3; allowed: a table"),
        ({"prompt_template": "Do {what}"}, "prompt_template is 'Do {what}'"),
        ({"prompt_template": "{task:>99999999}"}, "prompt_template is '{task:>99999999}'"),
        ({"prompt_template": "{task!x}"}, "prompt_template is '{task!x}'"),
        ({"prompt_template": "no task"}, "prompt_template is 'no task'"),
        ({"state": [{"key": "s", "width": 0}]}, "state is .*; allowed: widths of 1 or more"),
        ({"horizon": 10**12}, "horizon is 1000000000000; allowed: 1 to 10000"),
        ({"num_flow_steps": 10**9}, "num_flow_steps is 1000000000; allowed: 1 to 10000"),
        ({"max_prompt_tokens": 10**12}, "max_prompt_tokens is .*; allowed: 1 to 10000"),
        ({"normalisation_epsilon": float("inf")}, "normalisation_epsilon is inf"),
        ({"control_hz": float("inf")}, "control_hz: .* contradicts itself"),
        ({"prompt_template": "{task} {state}", "state": []}, "state is .*; allowed: what {state}"),
    ],
)
def test_a_wrong_field_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        parse_recipe(tree(**changes), "mine.json")


def test_a_missing_field_is_named() -> None:
    incomplete = tree()
    del incomplete["horizon"]

    with pytest.raises(InvalidArgumentError, match=r"mine\.json: horizon is missing"):
        parse_recipe(incomplete, "mine.json")


@pytest.mark.parametrize("content", ["", "[]", "3", "[" * 100_000])
def test_a_file_that_is_no_recipe_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "mine.json"
    path.write_text(content)

    with pytest.raises(InvalidArgumentError, match=r"mine\.json"):
        load_recipe(str(path))
