"""The benchmark's brain: look, work, look, finish, whatever the task.

Named in the configuration as `factory = "_support_planner:make_planner"`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from server.brain.interface import EngineInfo, Event, Finished, ToolCall, Turn

CALLS = (("look", "{}"), ("work", "{}"), ("look", "{}"), ("done", "{}"))


class FixedPlanner:
    """Calls its tools in order, one each turn."""

    info = EngineInfo(engine="bench", model="fixed")

    def decide(self, turn: Turn, is_cancelled: Callable[[], bool]) -> Iterator[Event]:
        name, arguments = CALLS[min(turn.turn_index, len(CALLS) - 1)]
        yield ToolCall(f"call-{turn.turn_index}", name, arguments)
        yield Finished()


def make_planner() -> FixedPlanner:
    """The factory."""
    return FixedPlanner()
