from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sim.fleet.replay.result import Window
from tests.fakes.replay_worker import result

WINDOW = Window(0.0, 120.0, 10, 1.0, 100, 10, 1, 3, 0, 1.0, 0.0, 0.4, 0.5, None)


def test_no_line_lies_on_the_frame_of_its_panel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plt = pytest.importorskip("matplotlib.pyplot")
    from sim.paper.windows_plot import INSIDE_PANELS, STUDY_PANELS, draw_windows

    runs = [
        replace(result(1, "0.32.0"), windows=(WINDOW, replace(WINDOW, hit=hit)))
        for hit in (0.99, None)
    ]
    with monkeypatch.context() as patch:
        patch.setattr(plt, "close", lambda _: None)
        draw_windows({"runs": runs}, tmp_path / "runs.png", STUDY_PANELS + INSIDE_PANELS)
    figure = plt.gcf()
    tops = [axis.get_ylim()[1] for axis in figure.axes]
    highest = [max(max(line.get_ydata()) for line in axis.lines[:1]) for axis in figure.axes]
    plt.close(figure)
    assert all(top > 1.04 * high for top, high in zip(tops, highest, strict=True))
