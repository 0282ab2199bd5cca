"""What a configuration can say about a remote policy: the keys of `policies.NAME.options`."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from robot_sdk.spec import ActionDimension, ActionGroup, ObservationKey, PolicySpec
from server.policy.pi05.recipe import load_recipe
from server.policy.pi05.tables import build_from_table, wrong

#: What of a π0.5 recipe says how its actions are used.
_OF_RECIPE = (
    "action",
    "action_groups",
    "horizon",
    "executed_steps",
    "control_hz",
    "clip_actions",
    "embodiments",
)


@dataclass(frozen=True)
class Picture:
    """One camera.

    Attributes:
        key: Observation key of the robot, for example "images/wrist".
        to: Key that the remote policy knows it by, for example "observation/wrist_image".
        rotate_180: Turn it upside down, as LIBERO's training pictures were. Done here and nowhere
            else: not if the remote policy does it itself.
        from_height_px, from_width_px: Exact size that the robot sends; 0 takes any.
        height_px, width_px: Size to send, without distortion, the rest black; 0 sends it as it is.
        layout: "hwc" as it is, "chw" with the colours first.
    """

    key: str
    to: str
    rotate_180: bool = False
    from_height_px: int = 0
    from_width_px: int = 0
    height_px: int = 0
    width_px: int = 0
    layout: Literal["hwc", "chw"] = "hwc"


@dataclass(frozen=True)
class Tensor:
    """One float32 vector of the robot. Those with the same `to` are joined in their order.

    Attributes:
        key: Observation key of the robot, for example "observation/state".
        to: Key that the remote policy knows it by.
        width: Its length.
    """

    key: str
    to: str
    width: int
    unit: str = ""


@dataclass(frozen=True)
class OpenpiOptions:
    """Settings of one remote policy.

    Attributes:
        url: Where it is, for example "ws://gpu-box:8000", with the path if there is one.
        pictures: What of the robot's pictures it gets.
        state: What of the robot's tensors it gets.
        recipe: Name or path of a π0.5 recipe. `action`, `action_groups`, `horizon`,
            `executed_steps`, `control_hz`, `clip_actions` and `embodiments` are taken from it where
            they are not given.
        prompt_key: Key that the instruction is sent under.
        actions_keys: Keys of the answer whose arrays are joined, in order, to the rows of a chunk.
            An answer that is a single array needs none.
        action: The numbers of an action.
        horizon: Rows of a chunk; an answer of another length is refused.
        executed_steps: Rows that are executed before the next chunk takes over.
        control_hz: Rate the rows are meant for.
        clip_actions: Put actions beyond a limit on it. Without, they are refused.
        api_key_env: Environment variable with a key, sent as `Authorization: SCHEME KEY`.
        api_key_scheme: openpi's client says "Api-Key".
        ca_file: PEM bundle to check a wss server's certificate with. Empty: the system's.
        session_id: Sent with every observation where the policy keeps a state per session. All
            robots share it, so such a policy serves one robot.
        connections: Connections of one worker. Observations of a batch go out over all of them at
            once; with one, one after the other, as openpi's own server works on them anyway.
        connect_timeout_s: Longest wait for a connection and its metadata.
        timeout_s: Longest wait for an answer. Keep it below `infer_timeout_s` of the policy.
        max_message_bytes: Largest answer.
    """

    url: str
    pictures: tuple[Picture, ...] = ()
    state: tuple[Tensor, ...] = ()
    recipe: str = ""
    prompt_key: str = "prompt"
    actions_keys: tuple[str, ...] = ("actions",)
    action: tuple[ActionDimension, ...] = ()
    action_groups: tuple[ActionGroup, ...] = ()
    horizon: int = 0
    executed_steps: int = 0
    control_hz: float = 0.0
    clip_actions: bool = False
    embodiments: tuple[str, ...] = ()
    api_key_env: str = ""
    api_key_scheme: str = "Api-Key"
    ca_file: str = ""
    session_id: str = ""
    connections: int = 1
    connect_timeout_s: float = 5.0
    timeout_s: float = 10.0
    max_message_bytes: int = 64 * 1024 * 1024

    def spec(self) -> PolicySpec:
        """What a robot must send, and what it gets."""
        return PolicySpec(
            name="openpi",
            version="1",
            action_dimensions=self.action,
            action_groups=self.action_groups,
            control_hz=self.control_hz,
            horizon=self.horizon,
            executed_steps=self.executed_steps,
            observation_keys=(
                *(
                    ObservationKey(p.key, "uint8", (p.from_height_px, p.from_width_px), True)
                    for p in self.pictures
                ),
                *(ObservationKey(t.key, "float32", (t.width,), unit=t.unit) for t in self.state),
            ),
            embodiments=self.embodiments,
            note="a policy server elsewhere",
        )


def parse_options(options: Mapping[str, Any]) -> OpenpiOptions:
    """Check a table of options. Nothing is connected yet.

    Raises:
        InvalidArgumentError: A key is unknown, missing or wrong, by name.
    """
    values = dict(options)
    given = build_from_table(OpenpiOptions, values, "table", "options")
    if given.recipe:
        recipe = load_recipe(given.recipe)
        rest = {name: getattr(recipe, name) for name in _OF_RECIPE if name not in values}
        given = OpenpiOptions(**{**vars(given), **rest})
    _check(given)
    return given


def read_api_key(options: OpenpiOptions) -> str:
    """The key, empty if none is configured.

    Raises:
        InvalidArgumentError: The environment variable is not set, or holds no key.
    """
    if not options.api_key_env:
        return ""
    key = os.environ.get(options.api_key_env, "").strip()
    if not (key and key.isascii() and key.isprintable()):
        raise wrong(
            "api_key_env",
            f"names {options.api_key_env}, which is not set or no key",
            "options",
            ("an environment variable with one line of printable ASCII",),
        )
    return key


def _check(options: OpenpiOptions) -> None:
    url = urlsplit(options.url)
    targets = [p.to for p in options.pictures]
    joined = {t.to for t in options.state}
    reserved = {options.prompt_key, "session_id"}
    rules = (
        (
            "url",
            url.scheme in ("ws", "wss") and bool(url.hostname) and not url.password,
            "ws://HOST:PORT or wss://HOST:PORT, without a password",
        ),
        ("pictures", len({p.key for p in options.pictures}) == len(targets), "each key once"),
        ("state", len({t.key for t in options.state}) == len(options.state), "each key once"),
        (
            "pictures",
            len(set(targets)) == len(targets) and not joined.intersection(targets),
            "a `to` of its own for each picture",
        ),
        (
            "pictures",
            not reserved & {*targets, *joined},
            "no `to` of the prompt or the session",
        ),
        (
            "pictures",
            all(bool(p.height_px) == bool(p.width_px) for p in options.pictures)
            and all(min(_sizes(p)) >= 0 for p in options.pictures),
            "height and width together, 0 or more",
        ),
        ("state", all(t.width >= 1 for t in options.state), "widths of 1 or more"),
        ("pictures", bool(options.pictures or options.state), "a picture or a state at least"),
        ("prompt_key", bool(options.prompt_key), "a name"),
        ("actions_keys", bool(options.actions_keys), "one at least"),
        ("action", bool(options.action), "one number at least, or a recipe"),
        ("horizon", options.horizon >= 1, "1 or more, or a recipe"),
        ("executed_steps", 1 <= options.executed_steps <= options.horizon, "1 to the horizon"),
        ("control_hz", _positive(options.control_hz), "more than 0, or a recipe"),
        ("connections", 1 <= options.connections <= 64, "1 to 64"),
        ("connect_timeout_s", _positive(options.connect_timeout_s), "more than 0"),
        ("timeout_s", _positive(options.timeout_s), "more than 0"),
        ("max_message_bytes", options.max_message_bytes >= 1024, "1024 or more"),
        ("ca_file", not options.ca_file or Path(options.ca_file).is_file(), "a file"),
    )
    for name, holds, allowed in rules:
        if not holds:
            raise wrong(name, f"is {getattr(options, name)!r}", "options", (allowed,))


def _sizes(picture: Picture) -> tuple[int, ...]:
    return (
        picture.from_height_px,
        picture.from_width_px,
        picture.height_px,
        picture.width_px,
    )


def _positive(value: float) -> bool:
    return math.isfinite(value) and value > 0
