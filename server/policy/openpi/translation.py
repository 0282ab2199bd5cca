"""Between this server's observations and chunks and the remote policy's maps: pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robot_sdk.errors import BadModelOutputError
from server.policy.interface import PolicyInput, PolicyOutput
from server.policy.openpi.options import OpenpiOptions
from server.policy.openpi.pictures import prepare

_MAX_WORDS = 300


def observation_of(item: PolicyInput, options: OpenpiOptions) -> dict[str, Any]:
    """What the remote policy gets of an observation."""
    observation: dict[str, Any] = {}
    for picture in options.pictures:
        observation[picture.to] = prepare(np.asarray(item.images[picture.key], np.uint8), picture)
    parts: dict[str, list[NDArray[np.generic]]] = {}
    for tensor in options.state:
        parts.setdefault(tensor.to, []).append(item.tensors[tensor.key])
    observation |= {to: np.concatenate(arrays) for to, arrays in parts.items()}
    observation[options.prompt_key] = item.instruction
    if options.session_id:
        observation["session_id"] = options.session_id
    return observation


def output_of(reply: Any, options: OpenpiOptions) -> PolicyOutput:
    """The chunk of an answer. Its size, its limits and its numbers are checked by the host.

    Raises:
        BadModelOutputError: The remote policy tells an error, or sends no such arrays.
    """
    if isinstance(reply, Mapping) and reply.get("type") == "error":
        raise remote_failure(str(reply.get("message", "")))
    actions = _actions(reply, options.actions_keys)
    if options.clip_actions and actions.ndim == 2 and actions.shape[1] == len(options.action):
        spec = options.spec()
        actions = np.clip(actions, spec.lower_limits(), spec.upper_limits())
    return PolicyOutput(actions.astype(np.float32))


def remote_failure(words: str) -> BadModelOutputError:
    """The remote policy failed on an observation and says why; of a traceback the last line."""
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    return BadModelOutputError(
        "the policy server failed on this observation",
        value=lines[-1][:_MAX_WORDS] if lines else "it does not say why",
    )


def _actions(reply: Any, keys: tuple[str, ...]) -> NDArray[Any]:
    if isinstance(reply, np.ndarray):
        return _rows(reply, "the answer")
    if not isinstance(reply, Mapping):
        raise _bad(f"a {type(reply).__name__}", "a map or an array")
    columns = []
    for key in keys:
        if key not in reply:
            raise _bad(
                f"the keys {', '.join(map(str, reply)) or 'none'}",
                f"{key} (option actions_keys)",
            )
        columns.append(_rows(reply[key], key))
    if len(columns) == 1:
        return columns[0]
    columns = [column[:, None] if column.ndim == 1 else column for column in columns]
    if any(column.ndim != 2 for column in columns) or len({len(c) for c in columns}) != 1:
        raise _bad(
            ", ".join(f"{k} {c.shape}" for k, c in zip(keys, columns, strict=True)),
            "arrays with the same number of rows",
        )
    return np.concatenate(columns, axis=1)


def _rows(value: Any, name: str) -> NDArray[Any]:
    """An array without leading axes of length 1, which stand for a batch of one."""
    try:
        array = np.asarray(value)
    except ValueError:
        raise _bad(f"{name} with rows of different lengths", "numbers") from None
    if array.dtype.kind not in "fiu":
        raise _bad(f"{name} of dtype {array.dtype}", "numbers")
    while array.ndim > 2 and array.shape[0] == 1:
        array = array[0]
    return array


def _bad(found: str, wanted: str) -> BadModelOutputError:
    return BadModelOutputError(
        "the policy server sent no actions that can be read",
        field="actions",
        value=found[:_MAX_WORDS],
        allowed=(wanted,),
    )
