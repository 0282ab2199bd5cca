"""A network that loses answers or goes away between a robot and a server that live on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from robot_sdk.client import connect
from robot_sdk.clock import SYSTEM_CLOCK
from robot_sdk.messages import Message
from tests.integration.end_to_end.conftest import Start
from tests.integration.end_to_end.harness import (
    BACK_WITHIN_S,
    FINISH,
    EpisodeThread,
    LoggingRobot,
    config,
    sleep,
)
from tests.integration.end_to_end.proxy import Proxy
from tests.integration.server.harness import Client as RawClient
from tests.integration.server.harness import Server, wait_until

pytestmark = pytest.mark.faultinjection


@pytest.fixture
def through_proxy() -> Iterator[Callable[[Server], Proxy]]:
    proxies: list[Proxy] = []

    def make(server: Server) -> Proxy:
        proxies.append(Proxy(server.ready["port"]))
        return proxies[-1]

    yield make
    for proxy in proxies:
        proxy.close()


def test_c4_a_turn_whose_answer_was_lost_after_the_commit_has_one_effect(
    start_server: Start, through_proxy: Callable[[Server], Proxy], tmp_path: Path
) -> None:
    effects = tmp_path / "effects"
    server = start_server(
        config([("note", {}), FINISH], delays_s=[1.0, 0.0], effects_file=str(effects))
    )
    proxy = through_proxy(server)
    raw = RawClient(server.address)
    with connect(proxy.address) as client:
        episode = EpisodeThread(client, LoggingRobot())
        wait_until(effects.exists)  # the turn is being decided
        proxy.hold_answers()
        wait_until(lambda: raw.status().brain.committed_turns_total == 1)
        assert episode.tools is not None
        assert episode.tools.num_noted == 0
        proxy.drop()

        result = episode.result()

    assert result.success
    assert episode.tools.num_noted == 1
    assert [line.split()[1] for line in effects.read_text().splitlines()] == ["0", "1"]
    assert raw.status().brain.replayed_turns_total == 1
    assert proxy.num_accepted >= 2
    raw.close()


def test_c4_an_admission_whose_answer_was_lost_takes_one_slot(
    start_server: Start, through_proxy: Callable[[Server], Proxy]
) -> None:
    server = start_server(config(cap=1))
    proxy = through_proxy(server)
    raw = RawClient(server.address)
    with connect(proxy.address) as client:
        proxy.hold_answers()
        episode = EpisodeThread(client, LoggingRobot())
        wait_until(lambda: raw.status().admission.active_episodes == 1)
        assert episode.tools is None
        proxy.drop()

        assert episode.result().success

    admission = raw.status().admission
    assert (admission.admitted_total, admission.active_episodes) == (1, 0)
    raw.close()


def test_a5_an_episode_that_outlives_a_network_outage_goes_on(
    start_server: Start, through_proxy: Callable[[Server], Proxy]
) -> None:
    server = start_server(config([("drive", {"steps": 240}), ("note", {}), FINISH]))
    proxy = through_proxy(server)
    with connect(proxy.address) as client:
        episode = EpisodeThread(client, LoggingRobot())
        episode.wait_for(lambda state: state.acted_steps >= 10)
        proxy.cut()
        cut_s = SYSTEM_CLOCK.now_s()
        sleep(4.0)
        proxy.mend()
        mended_s = SYSTEM_CLOCK.now_s()

        result = episode.result()

    robot = episode.robot
    assert result.success
    assert episode.tools is not None
    assert episode.tools.num_noted == 1
    assert result.starved_ticks > 0
    assert not [i for i in robot.executed if cut_s + 1.5 < i.at_s < mended_s]
    back_s = min(item.at_s for item in robot.executed if item.at_s > mended_s)
    assert back_s - mended_s < BACK_WITHIN_S
    robot.assert_every_action_was_of_its_step()


def test_a_robot_that_is_queued_keeps_its_place_over_a_broken_connection(
    start_server: Start, through_proxy: Callable[[Server], Proxy]
) -> None:
    server = start_server(config([("drive", {"steps": 100_000}), FINISH], cap=1))
    proxy = through_proxy(server)
    with connect(server.address) as direct, connect(proxy.address) as client:
        first = EpisodeThread(direct, LoggingRobot())
        first.wait_for(lambda state: state.acted_steps >= 1)
        second = EpisodeThread(client, LoggingRobot())
        wait_until(lambda: second.queued == [1])
        third = EpisodeThread(direct, LoggingRobot())
        wait_until(lambda: third.queued == [2])
        proxy.drop()
        sleep(1.0)
        assert first.tools is not None
        first.tools.enough.set()

        wait_until(lambda: second.tools is not None)

        assert third.tools is None
        second.tools.enough.set()
        wait_until(lambda: third.tools is not None)
        third.tools.enough.set()
        assert all(robot.result().success for robot in (first, second, third))


def test_c6_words_of_an_episode_that_was_dropped_never_reach_the_next(
    start_server: Start, through_proxy: Callable[[Server], Proxy]
) -> None:
    server = start_server(
        '[brain]\nengine = "factory"\nfactory = "tests.fakes.scripted:TickingBrain"\n'
        "options = {num = 1500}\n[policies]\n[episodes]\nlease_ttl_s = 30.0\n"
    )
    proxy = through_proxy(server)
    heard: list[str] = []

    def hear(text: str) -> None:
        heard.append(text)
        if len(heard) == 20:
            proxy.drop()
            raise ConnectionError("the robot gives up")

    with connect(proxy.address) as client:
        with (
            pytest.raises(ConnectionError),
            client.episode(task="go", robot_id="robot") as first,
        ):
            first.decide([Message.of_text("user", "old")], on_text=hear)
        with client.episode(task="go", robot_id="robot") as second:
            assert second.id != first.id
            words: list[str] = []
            turn = second.decide([Message.of_text("user", "new")], on_text=words.append)

    assert set(turn.text.split()) == {"new"}
    assert set("".join(words).split()) == {"new"}
    assert "old" in "".join(heard)
