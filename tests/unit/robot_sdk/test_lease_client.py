from __future__ import annotations

import threading
from typing import Any

import pytest

from robot_sdk.client import connect
from robot_sdk.errors import EpisodeEndedError, InvalidArgumentError, PersistentError
from robot_sdk.robot_state import RobotState
from robot_sdk.testing import FakeServer, FakeTransport


class FaultyTransport(FakeTransport):
    """A transport with a fault that no error class foresees."""

    def open_lease(self) -> Any:
        raise TypeError("not what this library gives")


def test_a_fault_of_the_heartbeat_thread_is_told_and_not_waited_for() -> None:
    with (
        connect("fake:1", transport=FaultyTransport(FakeServer())) as client,
        pytest.raises(PersistentError, match=r"heartbeat of the episode.*TypeError: not what"),
        client.episode(task="go", robot_id="r"),
    ):
        pass


@pytest.mark.parametrize(
    "fields", [{"tool": 3}, {"control_step": -1}, {"progress": "half"}], ids=str
)
def test_a_state_that_cannot_travel_is_refused_where_it_is_given(fields: dict[str, Any]) -> None:
    server = FakeServer()
    with (
        connect("fake:1", transport=FakeTransport(server)) as client,
        client.episode(task="go", robot_id="r") as episode,
    ):
        episode.update_state(RobotState(control_step=7))
        with pytest.raises(InvalidArgumentError, match="state cannot travel"):
            episode.update_state(RobotState(**fields))
        episode.end("success")
    assert server.run_requests[-1].end.final_state.control_step == 7


def test_an_episode_that_is_ended_by_another_thread_leaves_the_queue() -> None:
    server = FakeServer(cap=0)
    with connect("fake:1", transport=FakeTransport(server)) as client:
        queued = threading.Event()
        episode = client.episode(task="go", robot_id="r", on_queued=lambda _: queued.set())
        caught: list[Exception] = []

        def wait_at_the_door() -> None:
            try:
                with episode:
                    pass
            except EpisodeEndedError as error:
                caught.append(error)

        waiter = threading.Thread(target=wait_at_the_door, daemon=True)
        waiter.start()
        assert queued.wait(10)
        episode.end("aborted", "no longer wanted")
        waiter.join(10)

    assert not waiter.is_alive()
    assert len(caught) == 1
    assert not server.episodes.waiting
