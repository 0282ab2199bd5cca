from __future__ import annotations

from multiprocessing import active_children

import pytest

from sim.paper.parallel import in_processes


@pytest.mark.parametrize("num_processes", [1, 2])
def test_results_come_in_the_order_of_the_items(num_processes: int) -> None:
    assert list(in_processes(abs, [-3, -1, -2], num_processes)) == [3, 1, 2]


def test_no_process_outlives_a_reader_who_stops() -> None:
    before = set(active_children())
    results = in_processes(abs, list(range(50)), 2)
    next(results)
    results.close()  # type: ignore[attr-defined]
    assert set(active_children()) <= before
