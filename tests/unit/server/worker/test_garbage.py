from __future__ import annotations

import gc

from server.worker.garbage import leave_out_what_was_loaded


def test_what_was_loaded_is_left_out_of_collections_and_what_comes_later_is_not() -> None:
    before = [[] for _ in range(1000)]
    try:
        leave_out_what_was_loaded()
        assert gc.get_freeze_count() >= len(before)
        tracked = len(gc.get_objects())
        after = [[] for _ in range(500)]
        assert len(gc.get_objects()) - tracked >= len(after)
    finally:
        gc.unfreeze()
