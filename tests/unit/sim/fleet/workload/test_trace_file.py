from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robot_sdk.errors import InvalidArgumentError
from sim.fleet.workload import json_fields, trace_file
from sim.fleet.workload.trace import EpisodeTrace, TurnTrace
from sim.fleet.workload.trace_file import FORMAT, read_traces, write_traces

HEADER = {"format": FORMAT, "version": 1}
TURN = {"index": 0, "new_tokens": 5, "output_tokens": 2}
EPISODE = {"trace_id": "a", "task_family": "f", "turns": [TURN]}


def _file(folder: Path, *lines: Any) -> Path:
    path = folder / "traces.jsonl"
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return path


def _refusal(path: Path) -> str:
    with pytest.raises(InvalidArgumentError) as refusal:
        read_traces(path)
    return str(refusal.value)


@st.composite
def episodes(draw: st.DrawFn) -> EpisodeTrace:
    context = 0
    turns: list[TurnTrace] = []
    seconds = st.none() | st.floats(0.0, 1e6)
    for _ in range(draw(st.integers(1, 6))):
        turn = TurnTrace(
            new_tokens=draw(st.integers(1, 100_000)),
            output_tokens=draw(st.integers(1, 10_000)),
            env_steps=draw(st.integers(0, 1000)),
            wall_gap_s=draw(seconds),
            brain_latency_s=draw(seconds),
            new_images=draw(st.integers(0, 20)),
            chunks=draw(st.integers(0, 30)),
            kept_tokens=draw(st.none() | st.integers(0, context)),
        )
        turns.append(turn)
        kept = context if turn.kept_tokens is None else turn.kept_tokens
        context = kept + turn.new_tokens + turn.output_tokens
    words = st.text('aZ 9/_-ä日🙂"\\', min_size=1, max_size=12)
    return EpisodeTrace(
        trace_id=draw(words),
        task_family=draw(words),
        turns=tuple(turns),
        task=draw(words | st.just("")),
        control_hz=draw(st.floats(0.1, 1000.0)),
        success=draw(st.none() | st.booleans()),
        source=draw(st.sampled_from(["generated", "recorded", "imported"])),
        tokens_estimated=draw(st.booleans()),
    )


@settings(max_examples=30, deadline=None)
@given(traces=st.lists(episodes(), min_size=1, max_size=4, unique_by=lambda trace: trace.trace_id))
def test_what_was_written_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, traces: list[EpisodeTrace]
) -> None:
    path = tmp_path_factory.mktemp("traces") / "t.jsonl"
    write_traces(path, traces)
    assert read_traces(path) == tuple(traces)
    assert [file.name for file in path.parent.iterdir()] == ["t.jsonl"]


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_a_damaged_file_is_read_or_refused_and_never_anything_else(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("traces") / "t.jsonl"
    content = f"{json.dumps(HEADER)}\n{json.dumps(EPISODE)}\n".encode()
    start = data.draw(st.integers(0, len(content)))
    end = data.draw(st.integers(start, min(len(content), start + 8)))
    path.write_bytes(content[:start] + data.draw(st.binary(max_size=12)) + content[end:])
    with contextlib.suppress(InvalidArgumentError):
        assert read_traces(path)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("new_tokens", -1),
        ("new_tokens", 0),
        ("new_tokens", 3.5),
        ("new_tokens", 3.0),
        ("new_tokens", "3"),
        ("new_tokens", True),
        ("new_tokens", 10**400),
        ("output_tokens", 0),
        ("env_steps", -5),
        ("chunks", 10**12),
        ("wall_gap_s", -0.1),
        ("wall_gap_s", 10**400),
        ("brain_latency_s", "soon"),
        ("kept_tokens", 1),
    ],
)
def test_a_value_that_cannot_be_is_refused_by_line_field_and_value(
    tmp_path: Path, field: str, value: Any
) -> None:
    path = _file(tmp_path, HEADER, {**EPISODE, "turns": [{**TURN, field: value}]})
    text = _refusal(path)
    assert f"{path}:2: turns[0]: {field}" in text
    assert "allowed:" in text
    assert ("huge" if value == 10**400 else json.dumps(value)) in text


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_number_that_is_none_is_refused(tmp_path: Path, value: str) -> None:
    line = json.dumps({**EPISODE, "turns": [{**TURN, "wall_gap_s": 1.5}]}).replace("1.5", value)
    assert f"{tmp_path / 'traces.jsonl'}:2" in _refusal(_file(tmp_path, HEADER, line))


@pytest.mark.parametrize("name", ["trace_id", "task_family", "turns"])
def test_an_episode_lacks_nothing(tmp_path: Path, name: str) -> None:
    episode = {key: value for key, value in EPISODE.items() if key != name}
    assert f":2: there is no '{name}'" in _refusal(_file(tmp_path, HEADER, episode))


@pytest.mark.parametrize("name", ["index", "new_tokens", "output_tokens"])
def test_a_turn_lacks_nothing(tmp_path: Path, name: str) -> None:
    turn = {key: value for key, value in TURN.items() if key != name}
    text = _refusal(_file(tmp_path, HEADER, {**EPISODE, "turns": [turn]}))
    assert f":2: turns[0]: there is no '{name}'" in text


def test_turns_out_of_order_are_refused(tmp_path: Path) -> None:
    turns = [TURN, {**TURN, "index": 777}, {**TURN, "index": 1}]
    text = _refusal(_file(tmp_path, HEADER, {**EPISODE, "turns": turns}))
    assert "turns[1]: index: turns are not in order" in text
    assert "got 777" in text


def test_two_episodes_of_one_id_are_refused_with_both_lines(tmp_path: Path) -> None:
    text = _refusal(_file(tmp_path, HEADER, EPISODE, EPISODE))
    assert ":3: trace_id" in text
    assert "line 2" in text


def test_a_file_that_was_cut_off_says_so(tmp_path: Path) -> None:
    path = _file(tmp_path, HEADER, EPISODE, {**EPISODE, "trace_id": "b"})
    path.write_bytes(path.read_bytes()[:-20])
    assert f"{path}:3: the file ends within this line: it was cut off" in _refusal(path)


@pytest.mark.parametrize(
    "line", ["{", "[1]", "3", '{"trace_id": "a", "trace_id": "b"}', "[" * 9999]
)
def test_a_line_that_is_no_object_is_refused(tmp_path: Path, line: str) -> None:
    assert ":2: not a JSON" in _refusal(_file(tmp_path, HEADER, line))


def test_a_name_that_nobody_knows_is_refused_with_the_nearest(tmp_path: Path) -> None:
    text = _refusal(_file(tmp_path, HEADER, {**EPISODE, "turns": [{**TURN, "new_image": 2}]}))
    assert "no field 'new_image'" in text
    assert "new_images" in text


@pytest.mark.parametrize(
    ("header", "named"), [({"format": FORMAT, "version": 2}, "version"), (EPISODE, "format")]
)
def test_another_format_or_version_is_refused(
    tmp_path: Path, header: dict[str, Any], named: str
) -> None:
    assert f":1: {named}" in _refusal(_file(tmp_path, header, EPISODE))


def test_enormous_files_are_refused_by_their_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = [{**TURN, "index": place} for place in range(3)]
    path = _file(tmp_path, HEADER, {**EPISODE, "turns": turns})
    with monkeypatch.context() as bounds:
        bounds.setattr(trace_file, "MAX_TURNS", 2)
        assert "a list of 3" in _refusal(path)
    with monkeypatch.context() as bounds:
        bounds.setattr(trace_file, "MAX_TOKENS", 20)
        assert "21 tokens" in _refusal(path)
    with monkeypatch.context() as bounds:
        bounds.setattr(json_fields, "MAX_FILE_BYTES", 10)
        assert "at most 10 bytes" in _refusal(path)
    with monkeypatch.context() as bounds:
        bounds.setattr(json_fields, "MAX_LINE_BYTES", 60)
        assert ":2: the line is too long" in _refusal(path)


@pytest.mark.parametrize("lines", [(), (HEADER,)])
def test_a_file_without_an_episode_is_refused(tmp_path: Path, lines: tuple[Any, ...]) -> None:
    assert "no episode" in _refusal(_file(tmp_path, *lines))


def test_a_byte_order_mark_and_windows_line_ends_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    traces = [EpisodeTrace("a", "f", (TurnTrace(10, 2),))]
    write_traces(path, traces)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert list(read_traces(path)) == traces


def test_no_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    assert "No such file" in _refusal(tmp_path / "none.jsonl")
    assert "a folder" in _refusal(tmp_path)


def test_an_episode_that_could_not_be_read_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    good = EpisodeTrace("a", "f", (TurnTrace(5, 2),))
    for bad in (EpisodeTrace("b", "f", ()), EpisodeTrace("b", "f", (TurnTrace(0, 2),)), good):
        with pytest.raises(InvalidArgumentError):
            write_traces(path, [good, bad])
    assert not list(tmp_path.iterdir())
