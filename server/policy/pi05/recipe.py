"""Everything that differs between public checkpoints of π0.5, as data.

A recipe is a JSON file. Those of the known public checkpoints are in `recipes/` beside this file; a
checkpoint of your own gets a file of its own, named by path.
"""

from __future__ import annotations

import json
import math
import string
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from robot_sdk.errors import InvalidArgumentError, nearest
from robot_sdk.spec import ActionDimension, ActionGroup, ObservationKey, PolicySpec
from server.policy.checks import check_spec
from server.policy.pi05.normalisation import Method
from server.policy.pi05.tables import build_from_table, wrong

FORMAT = "pi05-recipe/1"
_FOLDER = Path(__file__).with_name("recipes")
#: Far beyond any checkpoint, and little enough not to fill a memory before that is noticed.
_MOST = 10_000


@dataclass(frozen=True)
class Camera:
    """One view, in the order of training.

    Attributes:
        key: Observation key, for example "images/wrist".
        rotate_180: Turn the picture upside down before the model sees it.
        height_px, width_px: Exact size of the picture, given together; absent takes any size.
    """

    key: str
    rotate_180: bool = False
    height_px: int | None = None
    width_px: int | None = None

    @property
    def size(self) -> tuple[int, int] | None:
        """(height, width), or None if any size will do."""
        if self.height_px is None or self.width_px is None:
            return None
        return self.height_px, self.width_px


@dataclass(frozen=True)
class StatePart:
    """One tensor of the state; all parts are joined in order.

    Attributes:
        key: Observation key, for example "observation/state".
        width: Its length; float32.
    """

    key: str
    width: int
    unit: str = ""


@dataclass(frozen=True)
class Recipe:
    """How a checkpoint is used.

    Attributes:
        name: Name of the policy.
        version: Version of the recipe.
        source: Where its facts come from.
        cameras: The views it has.
        num_empty_cameras: Views that it was trained with and that are never there. They are masked
            out in training, so leaving them out changes nothing and saves their tokens.
        resize_antialias: How pictures are made smaller, see `pixels.prepare_pictures`.
        state: What the state is made of. Read only if the prompt tells it.
        prompt_template: With {task}, and {state} where the state is told in words.
        prompt_end: Text that is turned into tokens by itself and put after the prompt.
        max_prompt_tokens: Places for the prompt; a longer one is refused.
        normalisation: Method for state and actions.
        normalisation_epsilon: Added to each dimension's spread.
        horizon: Action rows per chunk.
        executed_steps: Rows that are executed before the next chunk takes over.
        num_flow_steps: Euler steps from noise to actions.
        control_hz: Rate the rows are meant for.
        action: The robot's action; the model's further numbers are padding.
        clip_actions: Put actions that are a little beyond a limit on it. Without, they are refused.
        embodiments: Robots it was trained for.
        note: For people.
    """

    name: str
    version: str
    source: str
    cameras: tuple[Camera, ...]
    num_empty_cameras: int
    resize_antialias: bool
    state: tuple[StatePart, ...]
    prompt_template: str
    prompt_end: str
    max_prompt_tokens: int
    normalisation: Method
    normalisation_epsilon: float
    horizon: int
    executed_steps: int
    num_flow_steps: int
    control_hz: float
    action: tuple[ActionDimension, ...]
    clip_actions: bool
    action_groups: tuple[ActionGroup, ...] = ()
    embodiments: tuple[str, ...] = ()
    note: str = ""

    @property
    def state_in_prompt(self) -> bool:
        """Whether the prompt tells the state."""
        return "state" in _fields(self.prompt_template)

    @property
    def state_width(self) -> int:
        """Numbers in the joined state."""
        return sum(part.width for part in self.state)

    def spec(self) -> PolicySpec:
        """What a robot must send, and what it gets."""
        images = tuple(
            ObservationKey(camera.key, "uint8", camera.size or (0, 0), is_image=True)
            for camera in self.cameras
        )
        state = tuple(
            ObservationKey(part.key, "float32", (part.width,), unit=part.unit)
            for part in self.state
            if self.state_in_prompt
        )
        return PolicySpec(
            name=self.name,
            version=self.version,
            action_dimensions=self.action,
            action_groups=self.action_groups,
            control_hz=self.control_hz,
            horizon=self.horizon,
            executed_steps=self.executed_steps,
            observation_keys=(*images, *state),
            embodiments=self.embodiments,
            note=self.note,
        )


def shipped_recipes() -> list[str]:
    """Names of the recipes that come with the project."""
    return sorted(path.stem for path in _FOLDER.glob("*.json"))


def load_recipe(name_or_path: str) -> Recipe:
    """A recipe that comes with the project, by name, or one of your own, by path.

    Raises:
        InvalidArgumentError: There is none, or it is damaged; the message names the field.
    """
    path = _FOLDER / f"{name_or_path}.json"
    if not path.is_file():
        path = Path(name_or_path)
    if not path.is_file():
        known = shipped_recipes()
        close = nearest(name_or_path, known, 1)
        raise InvalidArgumentError(
            "there is no such recipe",
            field="recipe",
            value=name_or_path,
            allowed=(*known, "a path to a .json file"),
            hint=f"did you mean {close[0]}?" if close else "",
        )
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise wrong(path.name, f"cannot be read ({error})", "recipe") from error
    return parse_recipe(tree, path.name)


def parse_recipe(tree: object, origin: str) -> Recipe:
    """A recipe from what JSON gives.

    Args:
        tree: The decoded file.
        origin: What to call the file in messages.

    Raises:
        InvalidArgumentError: A field is missing, unknown or wrong, by name.
    """
    if not isinstance(tree, Mapping) or tree.get("format") != FORMAT:
        found = tree.get("format") if isinstance(tree, Mapping) else type(tree).__name__
        raise wrong(f"{origin}: format", f"is {found!r}", "recipe", (FORMAT,))
    fields = {key: value for key, value in tree.items() if key != "format"}
    recipe = build_from_table(Recipe, fields, origin, "recipe")
    _check(recipe, origin)
    return recipe


def _check(recipe: Recipe, origin: str) -> None:
    template = _fields(recipe.prompt_template)
    rules = (
        ("cameras", bool(recipe.cameras), "at least one"),
        (
            "cameras",
            all((c.height_px is None) == (c.width_px is None) for c in recipe.cameras),
            "height_px and width_px together, or neither",
        ),
        ("action", bool(recipe.action), "at least one"),
        (
            "prompt_template",
            "task" in template and template <= {"task", "state"},
            "text with {task} and, if the state is told, {state}",
        ),
        ("state", bool(recipe.state) or not recipe.state_in_prompt, "what {state} stands for"),
        ("state", all(part.width >= 1 for part in recipe.state), "widths of 1 or more"),
        ("max_prompt_tokens", 1 <= recipe.max_prompt_tokens <= _MOST, f"1 to {_MOST}"),
        (
            "normalisation_epsilon",
            0 <= recipe.normalisation_epsilon < math.inf,
            "0 or more",
        ),
        ("horizon", 1 <= recipe.horizon <= _MOST, f"1 to {_MOST}"),
        ("executed_steps", 1 <= recipe.executed_steps <= recipe.horizon, "1 to the horizon"),
        ("num_flow_steps", 1 <= recipe.num_flow_steps <= _MOST, f"1 to {_MOST}"),
        ("control_hz", recipe.control_hz > 0, "more than 0"),
    )
    for field, holds, allowed in rules:
        if not holds:
            found = f"is {getattr(recipe, field)!r}"
            raise wrong(f"{origin}: {field}", found, "recipe", (allowed,))
    check_spec(recipe.spec())


def _fields(template: str) -> set[str]:
    try:
        parts = list(string.Formatter().parse(template))
        # What stands behind a name ({task:>9}, {task!r}) is none of what can be declared.
        return {
            f"{name}{':' + spec if spec else ''}{'!' + kind if kind else ''}"
            for _, name, spec, kind in parts
            if name is not None
        }
    except ValueError:
        return set()
