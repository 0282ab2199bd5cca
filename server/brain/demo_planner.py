"""A rule-based brain for pick-and-place tasks, so that the whole system runs without weights.

It decides from the conversation alone, as a model would: the task in the user's words, its own
calls and their results. The same conversation always gives the same decision. For every object to
carry it looks, localises, lets the policy grasp, carries with scripted motions, lets go and checks.
Names of objects and places come from the robot's `scene` and `localise` tools.

Positions in tool results are metres in the robot's world frame, z up.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from server.brain.history import ToolUse, task_of, tool_uses
from server.brain.interface import EngineInfo, Event, Finished, Text, ToolCall, Turn
from server.brain.task_words import Move, Relation, best_match, parse_task

_MAX_PICKS = 3
_MAX_CARRIES = 2
#: Height of the fingers over the destination's top while carrying, metres.
_CARRY_CLEARANCE_M = 0.15
#: Straight up after a failed grasp or a release, metres.
_RETREAT_M = 0.12
#: Gap under the object at the moment of release, metres. What falls farther rolls aside.
_RELEASE_GAP_M = 0.005
#: An object that hangs this much elsewhere after the carry has slipped out of the fingers, metres.
_SLIPPED_M = 0.06
#: How far outside a destination's bounds an object's middle may lie and still count, metres.
_INSIDE_MARGIN_M = 0.02
#: An object is on another of its own size when their middles are this near, metres (LIBERO's rule).
_CENTRED_M = 0.03
_POSITION_WORDS = re.compile(r"\b(?:between|next to|from|on|in|at|near|under|behind|of)\b")


@dataclass(frozen=True)
class Decision:
    """What to say and which tool to call next."""

    say: str
    tool: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class _Thing:
    name: str
    position: tuple[float, float, float]
    size: tuple[float, float, float]
    foot: tuple[float, float, float]

    @property
    def top_m(self) -> float:
        return self.position[2] + self.size[2] / 2

    @property
    def bottom_m(self) -> float:
        return self.position[2] - self.size[2] / 2


class _Script:
    """Walks through the history in the order in which the plan would have made it.

    Each step of the plan asks for a tool use. If the history has it, the plan gets its result and
    goes on; if not, that step is the decision.
    """

    def __init__(self, uses: Sequence[ToolUse], tools: frozenset[str]) -> None:
        self._uses = list(uses)
        self._tools = tools
        self._next = 0

    def has(self, tool: str) -> bool:
        """Whether the robot offers the tool. A robot that listed none is asked all the same."""
        return not self._tools or tool in self._tools

    def use(self, say: str, tool: str, **arguments: Any) -> ToolUse:
        """The result of this step, or stop here and decide on it."""
        if not self.has(tool):
            raise _Decided(_finish(False, f"this robot has no tool {tool!r}"))
        if self._next < len(self._uses):
            use = self._uses[self._next]
            self._next += 1
            if use.name != tool:
                raise _Decided(
                    _finish(False, f"lost the thread: expected a result of {tool}, got {use.name}")
                )
            return use
        raise _Decided(Decision(say, tool, arguments))


class _Decided(Exception):
    def __init__(self, decision: Decision) -> None:
        self.decision = decision


class DemoPlanner:
    """The planner as a server engine."""

    info = EngineInfo(engine="demo-planner", model="rules-1", accepts_images=True)

    def decide(self, turn: Turn, is_cancelled: Callable[[], bool]) -> Iterator[Event]:
        uses = tool_uses(turn.messages)
        decision = plan(task_of(turn.messages), uses, frozenset(t.name for t in turn.tools))
        yield Text(decision.say)
        yield ToolCall(f"call-{turn.turn_index}", decision.tool, json.dumps(decision.arguments))
        yield Finished("stop")


def plan(task: str, uses: Sequence[ToolUse], tools: frozenset[str] = frozenset()) -> Decision:
    """The next decision for a task after these tool uses."""
    moves = parse_task(task)
    if not moves:
        return _finish(False, f"this planner does pick-and-place tasks only, not: {task!r}")
    script = _Script(uses, tools)
    try:
        _look(script)
        names = _names(script)
        for move in moves:
            _carry_out(script, move, names)
    except _Decided as decided:
        return decided.decision
    return _finish(
        True, f"{', '.join(move.what for move in moves)} put {moves[0].relation} {moves[0].where}"
    )


def _carry_out(script: _Script, move: Move, names: _Names) -> None:
    reason = "it was never tried"
    for _ in range(_MAX_CARRIES):
        thing = _find_object(script, move, names)
        _pick(script, thing.name)
        destination = _find_destination(script, move, names, thing.name)
        _place(script, move.relation, thing.name, destination)
        placed = _localise(script, thing.name, "Checking where it came to rest.")
        if _is_at(placed, destination, move.relation):
            return
        reason = f"{thing.name} came to rest at {_xy(placed)}, not at {destination.name}"
    raise _Decided(_finish(False, reason))


@dataclass(frozen=True)
class _Names:
    """What the scene holds; empty if the robot cannot list it. `things` by name."""

    objects: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    things: tuple[_Thing, ...] = ()


def _look(script: _Script) -> None:
    if script.has("look"):
        # A robot without pictures answers with an error, and the plan goes on without them.
        script.use("I will look at the scene first.", "look", camera="agentview")


def _names(script: _Script) -> _Names:
    if not script.has("scene"):
        return _Names()
    use = script.use("Which objects and places are there?", "scene")
    if use.is_error:
        return _Names()
    objects = [_thing(item) for item in _list(use.data.get("objects"))]
    places = [_thing(item) for item in _list(use.data.get("places"))]
    found_objects = tuple(thing for thing in objects if thing is not None)
    found_places = tuple(thing for thing in places if thing is not None)
    return _Names(
        objects=tuple(thing.name for thing in found_objects),
        places=tuple(thing.name for thing in found_places),
        things=(*found_objects, *found_places),
    )


def _find_object(script: _Script, move: Move, names: _Names) -> _Thing:
    candidates = best_match(move.what, names.objects)
    if names.objects and not candidates:
        raise _Decided(
            _finish(False, f"no {move.what} here; the scene has {', '.join(names.objects)}")
        )
    name = _meant(move, candidates, names) if candidates else move.what
    return _localise(script, name, f"I need the {move.what}. Where exactly is {name}?")


def _meant(move: Move, candidates: Sequence[str], names: _Names) -> str:
    """Of several equal objects the one that the task describes; the first if it describes none."""
    things = {thing.name: thing for thing in names.things}
    if len(candidates) == 1 or not move.described:
        return candidates[0]
    others = [name for name in things if name not in candidates]
    landmarks = []
    for part in _landmark_words(move.described):
        matches = best_match(part, others)
        if matches:
            landmarks.append(things[matches[0]].position)
    if "center" in move.described:
        landmarks.append((0.0, 0.0, 0.0))
    if not landmarks:
        return candidates[0]
    x = sum(p[0] for p in landmarks) / len(landmarks)
    y = sum(p[1] for p in landmarks) / len(landmarks)
    return min(
        candidates,
        key=lambda name: math.hypot(things[name].position[0] - x, things[name].position[1] - y),
    )


def _landmark_words(described: str) -> list[str]:
    """Names in a description: two in "between plate and ramekin", else one."""
    words = _POSITION_WORDS.sub(" ", described)
    return [part.strip() for part in words.split(" and ")]


def _pick(script: _Script, name: str) -> None:
    reason = ""
    for attempt in range(_MAX_PICKS):
        say = f"The policy takes {name}." if attempt == 0 else f"Again: {reason}."
        use = script.use(say, "policy_pick", object=name)
        if use.data.get("grasped") is True:
            return
        reason = _why(use, "it was not grasped")
        if attempt + 1 < _MAX_PICKS:
            # Whatever was taken by mistake is let go, and the arm makes room.
            if use.data.get("held"):
                script.use(
                    f"I hold {use.data['held']} instead; letting go.", "gripper", command="open"
                )
            here = _localise(
                script, "gripper", f"The grasp failed: {reason}. Where is the gripper?"
            )
            x, y, z = here.position
            script.use("Up, to make room.", "move_to", x=x, y=y, z=_clamped(z + _RETREAT_M))
            _localise(script, name, f"Where is {name} now?")
    raise _Decided(_finish(False, f"{name} was not grasped in {_MAX_PICKS} attempts: {reason}"))


def _find_destination(script: _Script, move: Move, names: _Names, held: str) -> _Thing:
    things = [name for name in (*names.objects, *names.places) if name != held]
    candidates = best_match(move.where, [name for name in things if not name.endswith("_region")])
    candidates = candidates or best_match(move.where, things)
    if things and not candidates:
        raise _Decided(_finish(False, f"no {move.where} here; the scene has {', '.join(things)}"))
    name = candidates[0] if candidates else move.where
    return _localise(script, name, f"It goes {move.relation} the {move.where}. Where is {name}?")


def _place(script: _Script, relation: Relation, name: str, destination: _Thing) -> None:
    """Carry it over and put it down, unless it slips out of the fingers on the way."""
    here = _localise(script, "gripper", "Where is the gripper?")
    x, y, z = here.position
    carry_z = _clamped(max(destination.top_m + _CARRY_CLEARANCE_M, z))
    _move(script, f"Lifting {name} to a safe height.", x, y, carry_z)
    offset = _offset(script, relation, name, f"How does {name} hang in the gripper?")
    x, y = (destination.position[i] + offset[i] for i in (0, 1))
    _move(script, f"Carrying it over {destination.name}.", x, y, carry_z)
    # Things turn in the fingers on the way, so the way down goes by how it hangs there.
    before, offset = offset, _offset(script, relation, name, "Does it still hang as before?")
    if math.dist(before, offset) > _SLIPPED_M:
        return
    x, y = (destination.position[i] + offset[i] for i in (0, 1))
    release_z = _clamped(destination.top_m + offset[2] + _RELEASE_GAP_M)
    _move(script, "Lowering it.", x, y, release_z)
    script.use("Letting go.", "gripper", command="open")
    _move(script, "Up and away.", x, y, _clamped(release_z + _RETREAT_M))


def _offset(script: _Script, relation: Relation, name: str, say: str) -> tuple[float, float, float]:
    """The gripper seen from what it holds: along x and y from its middle, along z from its bottom.

    A tilted object stands up when it is put on something, so there its foot counts for its middle.
    """
    held = _localise(script, name, say)
    grip = _localise(script, "gripper", "And the gripper?")
    middle = held.foot if relation == "on" else held.position
    x, y = (grip.position[i] - middle[i] for i in (0, 1))
    return x, y, grip.position[2] - held.bottom_m


def _move(script: _Script, say: str, x: float, y: float, z: float) -> None:
    """A motion that came short goes on: the check at the end tells whether it mattered."""
    use = script.use(say, "move_to", x=round(x, 4), y=round(y, 4), z=round(z, 4))
    if use.is_error:
        raise _Decided(_finish(False, f"move_to failed: {_why(use, 'no reason given')}"))


def _localise(script: _Script, name: str, say: str) -> _Thing:
    use = script.use(say, "localise", object=name)
    thing = _thing(use.data)
    if use.is_error or thing is None:
        raise _Decided(_finish(False, f"cannot localise {name}: {_why(use, 'no position')}"))
    return thing


def _is_at(thing: _Thing, destination: _Thing, relation: Relation) -> bool:
    """The object rests where it should: neither below the destination nor in the air above.

    In something, its middle lies within the bounds; on something, all of it does, or at least the
    middles agree.
    """
    not_below = thing.position[2] >= destination.bottom_m - _INSIDE_MARGIN_M
    if not not_below or thing.bottom_m > destination.top_m + _INSIDE_MARGIN_M:
        return False
    if relation == "in":
        aside = [abs(thing.position[i] - destination.position[i]) for i in (0, 1)]
        return all(aside[i] <= destination.size[i] / 2 + _INSIDE_MARGIN_M for i in (0, 1))
    if math.dist(thing.foot[:2], destination.position[:2]) <= _CENTRED_M:
        return True
    return all(
        abs(thing.position[i] - destination.position[i])
        <= (destination.size[i] - thing.size[i]) / 2
        for i in (0, 1)
    )


def _thing(data: object) -> _Thing | None:
    if not isinstance(data, dict):
        return None
    position, size = _three(data.get("position")), _three(data.get("size"))
    if position is None:
        return None
    # A robot that does not tell where a thing's foot is has things that stand upright.
    foot = _three(data.get("foot")) or position
    return _Thing(str(data.get("name", "")), position, size or (0.0, 0.0, 0.0), foot)


def _three(value: object) -> tuple[float, float, float] | None:
    if not isinstance(value, list) or len(value) != 3:
        return None
    if not all(isinstance(v, (int, float)) and math.isfinite(v) for v in value):
        return None
    return float(value[0]), float(value[1]), float(value[2])


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _why(use: ToolUse, otherwise: str) -> str:
    reason = use.data.get("reason") or (use.text if use.is_error else "")
    return str(reason)[:200] or otherwise


def _xy(thing: _Thing) -> str:
    return f"({thing.position[0]:.2f}, {thing.position[1]:.2f})"


def _clamped(z: float) -> float:
    """Heights that an arm on a table can be sent to, metres."""
    return round(min(max(z, 0.0), 1.6), 4)


def _finish(success: bool, summary: str) -> Decision:
    say = "The task is done." if success else f"I give up: {summary}."
    return Decision(say, "finish", {"success": success, "summary": summary[:500]})
