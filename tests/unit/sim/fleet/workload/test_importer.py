from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_sdk.errors import InvalidArgumentError
from sim.fleet.workload.importer import CONTROL_HZ, Imported, import_calls
from sim.fleet.workload.trace_file import read_traces, write_traces

FIRST = {"session": "a", "prompt_tokens": 1000, "output_tokens": 100, "start_s": 0, "end_s": 2}


def _import(folder: Path, *calls: dict[str, Any], keeps: int = 0) -> Imported:
    path = folder / "calls.jsonl"
    path.write_text("".join(json.dumps(call) + "\n" for call in calls), encoding="utf-8")
    return import_calls(path, "coding", keeps)


def _next(**changes: Any) -> dict[str, Any]:
    return {**FIRST, "prompt_tokens": 1300, "start_s": 5.5, "end_s": 6.5, **changes}


def test_whole_prompts_become_what_each_adds(tmp_path: Path) -> None:
    (trace,) = _import(tmp_path, FIRST, _next()).traces
    assert [turn.new_tokens for turn in trace.turns] == [1000, 200]
    assert trace.prompt_tokens == (1000, 1300)
    assert trace.source == "imported"
    assert trace.task_family == "coding"


def test_gaps_are_waited_for_as_a_robots(tmp_path: Path) -> None:
    (trace,) = _import(tmp_path, FIRST, _next()).traces
    assert trace.env_gap_s(0) == trace.turns[0].wall_gap_s == 3.5
    assert trace.turns[0].brain_latency_s == 2
    assert trace.turns[1].env_steps == 0


def test_new_tokens_and_gaps_are_taken_as_they_are(tmp_path: Path) -> None:
    calls = [
        {"session": "a", "new_tokens": 1000, "output_tokens": 100},
        {"session": "a", "new_tokens": 200, "output_tokens": 50, "gap_s": 0.25},
    ]
    (trace,) = _import(tmp_path, *calls).traces
    assert trace.prompt_tokens == (1000, 1300)
    assert trace.env_gap_s(0) == 0.25
    assert trace.turns[0].brain_latency_s is None


def test_sessions_may_alternate(tmp_path: Path) -> None:
    other = {**FIRST, "session": "b", "task_family": "browsing"}
    traces = _import(tmp_path, FIRST, other, _next()).traces
    assert [(trace.trace_id, trace.task_family, len(trace.turns)) for trace in traces] == [
        ("a", "coding", 2),
        ("b", "browsing", 1),
    ]


@pytest.mark.parametrize(("keeps", "kept"), [(0, 0), (300, 300), (5000, 399)])
def test_a_shorter_prompt_is_a_compaction(tmp_path: Path, keeps: int, kept: int) -> None:
    imported = _import(tmp_path, FIRST, _next(prompt_tokens=400), keeps=keeps)
    assert imported.traces[0].turns[1].kept_tokens == kept
    assert imported.traces[0].turns[1].new_tokens == 400 - kept
    assert (imported.num_compactions, imported.num_kept_assumed) == (1, 1)


def test_a_line_may_say_what_a_compaction_keeps(tmp_path: Path) -> None:
    for said in ({"kept_tokens": 250}, {"new_tokens": 150}):
        imported = _import(tmp_path, FIRST, _next(prompt_tokens=400, **said), keeps=7)
        assert imported.traces[0].turns[1].kept_tokens == 250
        assert (imported.num_compactions, imported.num_kept_assumed) == (1, 0)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"start_s": 1.5}, "start_s: before the end of the session's previous call"),
        ({"end_s": 5.0}, "end_s: before the call's start"),
        ({"start_s": None}, "there is no 'start_s'"),
        ({"gap_s": 1.0}, "gap_s: this session has start_s"),
        ({"prompt_tokens": 0}, "prompt_tokens"),
        ({"prompt_tokens": None}, "there is neither 'prompt_tokens' nor 'new_tokens'"),
        ({"new_tokens": 100}, "new_tokens: the rest of the prompt is longer"),
        ({"kept_tokens": 1200}, "kept_tokens"),
        ({"prompt_tokens": 90, "kept_tokens": 90}, "kept_tokens: as long as the prompt"),
        ({"prompt_tokens": 400, "new_tokens": 150, "kept_tokens": 1}, "kept_tokens"),
        ({"output_tokens": -1}, "output_tokens"),
        ({"output_tokens": 1.5}, "output_tokens"),
        ({"start_s": 1e9, "end_s": 1e9}, "start_s"),
        ({"task_family": "browsing"}, "task_family: another family"),
        ({"tokens": 3}, "there is no field 'tokens'"),
    ],
)
def test_a_call_that_cannot_be_is_refused_by_line_and_field(
    tmp_path: Path, changes: dict[str, Any], named: str
) -> None:
    with pytest.raises(InvalidArgumentError) as refusal:
        _import(tmp_path, FIRST, _next(**changes))
    assert f"calls.jsonl:2: {named}" in str(refusal.value)


def test_a_session_without_a_clock_needs_gaps(tmp_path: Path) -> None:
    first = {"session": "a", "new_tokens": 10, "output_tokens": 1}
    for second, named in (({}, "'gap_s'"), ({"start_s": 1.0}, "start_s: this session began")):
        with pytest.raises(InvalidArgumentError, match=named):
            _import(tmp_path, first, {**first, **second})


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="no call"):
        _import(tmp_path)


@given(
    prompts=st.lists(st.integers(1, 10**6), min_size=1, max_size=8),
    outputs=st.lists(st.integers(1, 10**4), min_size=8, max_size=8),
    keeps=st.integers(0, 2000),
)
def test_prompts_stay_as_long_as_they_were_and_the_result_is_a_trace_file(
    tmp_path_factory: pytest.TempPathFactory, prompts: list[int], outputs: list[int], keeps: int
) -> None:
    folder = tmp_path_factory.mktemp("calls")
    calls = [
        {"session": "a", "prompt_tokens": prompt, "output_tokens": output, "gap_s": 1}
        for prompt, output in zip(prompts, outputs, strict=False)
    ]
    imported = _import(folder, *calls, keeps=keeps)
    assert imported.traces[0].prompt_tokens == tuple(prompts)
    assert imported.traces[0].control_hz == CONTROL_HZ
    write_traces(folder / "traces.jsonl", imported.traces)
    assert read_traces(folder / "traces.jsonl") == imported.traces
