from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from robot_sdk import telemetry
from robot_sdk.clock import VirtualClock
from robot_sdk.telemetry import attributes as attr
from robot_sdk.telemetry import spans


@pytest.fixture
def read_the_trace(example: Callable[[str], ModuleType]) -> ModuleType:
    return example("05_read_the_trace")


def test_the_slowest_tool_is_that_of_its_own_episode(
    read_the_trace: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    writer = telemetry.start("robot-0", run_folder=tmp_path, clock=VirtualClock())
    for episode_id, tool, length_s in (
        ("episode-a", "look", 1.0),
        ("episode-b", "move_to", 9.0),
        ("episode-c", None, 0.0),
    ):
        episode = writer.start_span(
            attr.SPAN_EPISODE, attributes=spans.episode(episode_id=episode_id)
        )
        if tool is not None:
            writer.record_span(spans.tool_span_name(tool), 0.0, length_s, parent=episode)
        episode.end()
    writer.shutdown()

    assert read_the_trace.main([str(tmp_path)]) == 0

    told = [line for line in capsys.readouterr().out.splitlines() if line.startswith("slowest")]
    assert told == [
        "slowest tool of episode episode-: tool.look, 1.00 s",
        "slowest tool of episode episode-: tool.move_to, 9.00 s",
    ]


def test_a_missing_folder_is_named_in_one_line(
    read_the_trace: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert read_the_trace.main([str(tmp_path / "nowhere")]) == 2

    assert capsys.readouterr().err.count("\n") == 1
