"""`python -m robot_sdk trace`: output, pictures and exit codes."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path

import pytest

from robot_sdk.__main__ import main
from robot_sdk.errors import MissingExtraError
from robot_sdk.telemetry import attributes as attr
from robot_sdk.trace import join, read_folder, timeline

needs_matplotlib = pytest.mark.skipif(
    importlib.util.find_spec("matplotlib") is None, reason="needs the extra [plot]"
)


@pytest.fixture
def folder(make_run, turn) -> Path:
    run = make_run(modelled_delay_s=0.1)
    for episode_id in ("ep-a1", "ep-b2"):
        run.episode(
            [turn(1.0, 20, 2.0, chunks=2, starved_ticks=3), turn(2.0, 0, 1.0, tool="look")],
            episode_id=episode_id,
        )
    run.close()
    return run.folder


def test_the_table_shows_clocks_parts_ticks_and_episodes(folder: Path, capsys) -> None:
    assert main(["trace", str(folder)]) == 0

    text = capsys.readouterr().out
    assert re.search(r"brain latency +4 +1\.500 +2\.000 +2\.000\* +2\.000", text)
    assert re.search(r"env-step gap +2 +1\.000", text)
    assert "zero-step intervals: 0 of 2 (0.0%): no tool took a step" in text
    assert "steps while a tool was active, held ones included" in text
    assert "modelled delay (added)" in text
    assert "tokens a turn (estimated)" in text
    assert "acted 34, starved 6, start-wait 0, idle 6" in text
    assert "2 success" in text
    assert "dropped spans: 0" in text
    assert "the study" not in text


def test_the_study_is_shown_on_request(folder: Path, capsys) -> None:
    assert main(["trace", str(folder), "--study"]) == 0

    text = capsys.readouterr().out
    assert re.search(r"the study +7\.780 +13\.840 +- +48\.260", text)
    assert "the study: 688 of 1782 (38.6%)" in text


def test_json_goes_to_stdout_alone(folder: Path, capsys) -> None:
    assert main(["trace", str(folder), "--json"]) == 0

    assert len(json.loads(capsys.readouterr().out)["episodes"]) == 2


def test_one_episode_is_chosen_by_the_start_of_its_id(folder: Path, capsys) -> None:
    assert main(["trace", str(folder), "--json", "--episode", "ep-a"]) == 0

    document = json.loads(capsys.readouterr().out)
    assert [row["id"] for row in document["episodes"]] == ["ep-a1"]


@pytest.mark.parametrize("wanted", ["ep-", "nothing-like-it"])
def test_an_unclear_episode_id_lists_the_ids(folder: Path, wanted: str, capsys) -> None:
    assert main(["trace", str(folder), "--episode", wanted]) == 2

    assert "ep-a1" in capsys.readouterr().err


def test_spans_of_no_episode_are_named(folder: Path, capsys) -> None:
    span = {"traceId": "d" * 32, "name": "init_device", "startTimeUnixNano": "1"}
    span["endTimeUnixNano"] = "2"
    spans = [{**span, "spanId": "e" * 16}, {**span, "spanId": "f" * 16}]
    line = {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}
    (folder / "engine.trace.jsonl").write_text(json.dumps(line) + "\n")

    assert main(["trace", str(folder)]) == 0

    (told,) = [row for row in capsys.readouterr().out.splitlines() if "no episode" in row]
    assert told.strip().startswith("2 spans of no episode")
    assert told.endswith("init_device (2)")


def test_a_missing_folder_is_bad_input(tmp_path: Path, capsys) -> None:
    assert main(["trace", str(tmp_path / "nowhere")]) == 2

    assert "no such folder" in capsys.readouterr().err


def test_a_folder_with_only_garbage_says_so_and_prints_an_empty_table(
    tmp_path: Path, capsys
) -> None:
    (tmp_path / "x.trace.jsonl").write_text("not json\nnor this\nhalf")

    assert main(["trace", str(tmp_path)]) == 0

    text = capsys.readouterr().out
    assert "x.trace.jsonl:1: not an OTLP/JSON line" in text
    assert "0 episodes" in text


def test_escape_sequences_of_a_task_do_not_reach_the_terminal(make_run, capsys) -> None:
    run = make_run()
    run.robot.record_span(
        attr.SPAN_EPISODE, 50.0, 51.0, attributes={attr.TASK: "\x1b[2Jpick\nup\u202e it"}
    )
    run.close()

    assert main(["trace", str(run.folder)]) == 0

    text = capsys.readouterr().out
    assert "pick up it" in text
    assert "\x1b" not in text


@needs_matplotlib
def test_pictures_of_all_episodes_go_into_a_folder(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "pictures"

    assert main(["trace", str(folder), "--png", str(out)]) == 0

    names = sorted(path.name for path in out.iterdir())
    assert names == ["ep-a1.timeline.png", "ep-b2.timeline.png"]
    header = (out / names[0]).read_bytes()[:24]
    assert header[:8] == b"\x89PNG\r\n\x1a\n"
    assert int.from_bytes(header[16:20], "big") == 1600


@needs_matplotlib
def test_one_picture_of_several_episodes_is_refused(folder: Path, tmp_path: Path, capsys) -> None:
    assert main(["trace", str(folder), "--png", str(tmp_path / "one.png")]) == 2

    assert "ep-b2" in capsys.readouterr().err


@needs_matplotlib
def test_the_three_clocks_can_be_drawn_with_the_study(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "clocks.png"

    assert main(["trace", str(folder), "--study", "--clocks-png", str(path)]) == 0

    assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


@needs_matplotlib
def test_a_dollar_sign_in_a_task_is_drawn_as_it_is(make_run, tmp_path: Path) -> None:
    run = make_run()
    run.robot.record_span(attr.SPAN_EPISODE, 50.0, 51.0, attributes={attr.TASK: r"pay $\frac$ 5"})
    run.close()

    assert main(["trace", str(run.folder), "--png", str(tmp_path / "t.png")]) == 0


def test_a_missing_matplotlib_names_the_install_command(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)

    with pytest.raises(MissingExtraError, match=r"pip install 'robot-sdk\[plot\]'"):
        timeline.new_figure(1.0, 1.0)


@needs_matplotlib
def test_held_steps_are_a_share_of_a_bar_s_height_as_wide_as_the_bar(make_run, turn) -> None:
    from matplotlib.colors import to_hex

    run = make_run()
    run.episode([turn(1.0, 100, 5.0, chunks=2, starved_ticks=89), turn(1.0, 10, 2.0)])
    run.close()
    (episode,) = join(read_folder(run.folder).spans).episodes

    axes = timeline.draw(episode).axes[0]

    (bar,) = [patch for patch in axes.patches if to_hex(patch.get_facecolor()) == timeline.HELD]
    assert bar.get_width() == pytest.approx(5.0)
    whole = next(
        patch
        for patch in axes.patches
        if to_hex(patch.get_facecolor()) == timeline.MOVING and patch.get_x() == bar.get_x()
    )
    assert bar.get_height() == pytest.approx(0.89 * whole.get_height())
    texts = [text.get_text() for text in axes.texts]
    assert "100 steps, 89% held" in texts
    assert "10 steps" in texts
