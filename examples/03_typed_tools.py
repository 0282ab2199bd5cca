"""Tools are typed Python functions; wrong calls go back to the brain and never reach them.

Shows what the brain is told (a JSON Schema made from the signature) and what happens to calls that
are out of bounds, misspelt, cut off, or not JSON at all, and of a tool that raises: the brain reads
what went wrong, and you find it in your log. Needs no server.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import Annotated, Literal

from robot_sdk.tools import Range, ToolRegistry, finish, tool


class Arm:
    """A robot's tools as the methods of one object."""

    @tool
    def move_to(
        self,
        x: Annotated[float, Range(-0.5, 0.5, unit="m")],
        y: Annotated[float, Range(-0.5, 0.5, unit="m")],
        speed: Annotated[float, Range(0.01, 1.0, unit="m/s")] = 0.25,
    ) -> str:
        """Move the gripper over the table.

        Args:
            x: Forward.
            y: To the left.
            speed: Largest speed along each axis.
        """
        return f"at {x}, {y} with {speed} m/s"

    @tool
    def gripper(self, command: Literal["open", "close"]) -> None:
        """Open or close the gripper."""

    @tool
    def scan(self) -> dict[str, object]:
        """Read the distance sensor."""
        raise ConnectionError("the sensor does not answer")


def log_in_one_line() -> None:
    """Show the SDK's log among the output, without the tracebacks that a real log would keep."""

    def without_traceback(record: logging.LogRecord) -> bool:
        record.exc_info = None
        return True

    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(logging.Formatter("    your log: %(message)s (traceback left out here)"))
    handler.addFilter(without_traceback)
    logging.getLogger("robot_sdk").addHandler(handler)


def main() -> None:
    log_in_one_line()
    tools = ToolRegistry(Arm(), finish)
    print("What the brain is told about move_to:")
    print(json.dumps(tools.specs[0].parameters, indent=2))
    print("\nCalls and what comes back:")
    for name, arguments in (
        ("move_to", '{"x": 0.1, "y": -0.2}'),
        ("move_to", '{"x": 0.1, "y": 7}'),
        ("move_to", '{"x": NaN, "y": 0}'),
        ("move_to", '{"x": 0.1, "z": 0}'),
        ("move_to", '{"x": 0.1, "y": -0.'),
        ("gripper", '{"command": "shut"}'),
        ("griper", '{"command": "open"}'),
        ("scan", ""),
        ("finish", '{"success": true, "summary": "tidy"}'),
    ):
        print(f"  {name}({arguments})")
        result = tools.call(name, arguments)
        kind = "refused" if result.is_invalid else "failed" if result.is_error else "ran"
        print(f"    {kind}: {result.text}")


if __name__ == "__main__":
    main()
