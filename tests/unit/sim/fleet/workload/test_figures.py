from __future__ import annotations

import numpy as np
import pytest

from sim.fleet.workload.figures import draw_gaps, draw_growth, families, growth_quartiles
from sim.fleet.workload.trace import EpisodeTrace, TurnTrace


def test_a_line_ends_where_fewer_than_four_episodes_are_left() -> None:
    prompts = [[10, 20], [11, 21], [12, 22, 30], [13, 23, 31], [14, 24, 32, 40]]
    turns, quartiles = growth_quartiles(prompts)
    assert turns.tolist() == [1, 2]
    np.testing.assert_allclose(quartiles, [[11, 21], [12, 22], [13, 23]])


def test_fewer_than_four_episodes_are_drawn_together_to_the_shortest() -> None:
    turns, quartiles = growth_quartiles([[10, 20, 30], [20, 40]])
    assert turns.tolist() == [1, 2]
    np.testing.assert_allclose(quartiles[1], [15, 30])


def test_pictures_show_each_family_and_the_share_that_moves_nothing() -> None:
    plt = pytest.importorskip("matplotlib.pyplot")
    still, moves = TurnTrace(10, 1, env_steps=0), TurnTrace(10, 1, env_steps=20, wall_gap_s=3.0)
    traces = [
        EpisodeTrace("a", "f", (still, moves, still)),
        EpisodeTrace("b", "g", (moves, still)),
    ]
    figure, (growth, gaps) = plt.subplots(1, 2)
    draw_growth(growth, traces)
    draw_gaps(gaps, traces)
    assert families(traces) == ["f", "g"]
    assert [text.get_text() for text in growth.get_legend().get_texts()] == ["f (1)", "g (1)"]
    assert "33.3% move nothing" in [text.get_text() for text in gaps.texts]
    plt.close(figure)
