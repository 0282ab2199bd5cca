"""The cliff of the tiny engine: who goes when, what is counted, what is said of it."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from robot_sdk.errors import OverloadedError, RobotSdkError
from robot_sdk.messages import TokenUsage
from server.capacity.cliff import tiny_report
from server.capacity.cliff.carousel import Carousel, Load, Tally
from server.capacity.cliff.ledger_counters import LedgerCount, parse_ledger, read_ledger
from server.capacity.cliff.tiny_report import Phase
from server.core.capacity import KvPool

BLOCK_TOKENS = 10


class FakeClient:
    """A server with a door and a cache: a robot keeps its prefix if `keeps` says so."""

    def __init__(self, cap, keeps=lambda robot: True, usage=None) -> None:
        self._door = threading.Semaphore(cap)
        self._keeps = keeps
        self._usage = usage
        self.inside = 0
        self.most_inside = 0
        self.order: list[str] = []
        self._lock = threading.Lock()

    @contextmanager
    def episode(self, *, robot_id, **_):
        with self._door:
            with self._lock:
                self.inside += 1
                self.most_inside = max(self.most_inside, self.inside)
            tokens = [0]

            def decide(messages, **_):
                self.order.append(robot_id)
                cached = tokens[0] if self._keeps(robot_id) else 0
                tokens[0] += 25
                usage = self._usage or TokenUsage(
                    input_tokens=tokens[0], cached_tokens=cached, output_tokens=2
                )
                tokens[0] += 2
                return SimpleNamespace(usage=usage)

            yield SimpleNamespace(decide=decide)
            with self._lock:
                self.inside -= 1


def ride(client, num_robots, cap, num_visits=2) -> Tally:
    carousel = Carousel(client, Load(num_robots, num_visits, 5, 1), cap, BLOCK_TOKENS, "r")
    carousel.enter()
    return carousel.run()


def test_robots_take_turns_in_the_order_in_which_they_came_in():
    client = FakeClient(cap=3)
    ride(client, 3, cap=None)
    assert client.order == ["r-0", "r-1", "r-2"] * 3


def test_first_turns_are_not_counted_and_every_later_one_is():
    tally = ride(FakeClient(cap=4), 4, cap=None, num_visits=3)
    assert (tally.kept, tally.counted) == (12, 12)
    assert tally.warm_context_tokens == 27
    assert tally.longest_context_tokens == 4 * 27


def test_a_prefix_that_is_gone_counts_as_lost():
    tally = ride(FakeClient(cap=4, keeps=lambda robot: robot == "r-1"), 4, cap=None)
    assert (tally.kept, tally.counted) == (2, 8)


def test_with_a_cap_the_next_robot_comes_in_when_one_has_ended_and_none_is_forgotten():
    client = FakeClient(cap=2)
    tally = ride(client, 5, cap=2)
    assert client.most_inside == 2
    assert tally.counted == 10
    assert {robot: client.order.count(robot) for robot in client.order} == {
        f"r-{index}": 3 for index in range(5)
    }


def test_a_door_that_sends_robots_away_ends_the_run_with_its_reason():
    class Full:
        def episode(self, **_):
            raise OverloadedError("no room")

    with pytest.raises(OverloadedError, match="no room"):
        ride(Full(), 2, cap=None)


def test_an_engine_that_does_not_count_is_an_error_and_lets_the_robots_go():
    client = FakeClient(cap=2, usage=TokenUsage(input_tokens=5, output_tokens=1))
    with pytest.raises(RobotSdkError, match="does not count tokens"):
        ride(client, 2, cap=None)


PAGE = """\
# HELP robot_turn_service_seconds Time
robot_turn_service_seconds_count{outcome="hit"} 24.0
robot_turn_service_seconds_sum{outcome="hit"} 5.07
robot_turn_service_seconds_count{outcome="miss"} 3.0
robot_turn_service_seconds_count{outcome="first"} 8.0
"""


def test_the_ledger_s_counters_are_read_from_its_page():
    assert parse_ledger(PAGE) == LedgerCount(24, 3)
    assert LedgerCount(24, 3).since(LedgerCount(20, 3)).survival == 1.0
    assert LedgerCount(24, 3).since(LedgerCount(24, 3)).survival is None


def test_a_page_without_the_counters_is_an_error(tmp_path):
    with pytest.raises(RobotSdkError, match="robot_turn_service_seconds_count"):
        parse_ledger("up 1\n")
    log = tmp_path / "server.log"
    log.write_text("listening\n")
    with pytest.raises(RobotSdkError, match="no metrics page"):
        read_ledger(log)
    log.write_text("metrics on http://127.0.0.1:1\n")
    with pytest.raises(RobotSdkError, match="cannot be read"):
        read_ledger(log)


def phase(num_robots, cap, hits, misses):
    tally = Tally(hits, hits + misses, longest_context_tokens=778, warm_context_tokens=664.0)
    return Phase(num_robots, cap, num_robots, 0, LedgerCount(hits, misses), tally, wall_s=1.0)


PHASES = [phase(8, None, 24, 0), phase(14, None, 0, 42), phase(14, 8, 42, 0)]


def test_the_table_shows_survival_of_every_load_and_the_planner_s_count():
    shown = tiny_report.render(PHASES, KvPool(256, 32), start_s=15.0, wall_s=40.0)
    assert "10 sessions fit" in shown
    assert [line.split()[4] for line in shown.splitlines() if "/42" in line] == ["0.000", "1.000"]


def test_json_names_every_load_as_the_study_names_its_rows():
    content = tiny_report.to_json(PHASES, KvPool(256, 32), start_s=15.0, wall_s=40.0)
    rows = {row["row"]: row["ours"] for row in json.loads(json.dumps(content))["rows"]}
    assert rows == {"N8": 1.0, "N14": 0.0, "N14_K8": 1.0}


def test_ledger_and_robots_that_count_differently_are_noticed():
    assert PHASES[0].agrees
    other = Phase(8, None, 8, 0, LedgerCount(23, 1), PHASES[0].tally, wall_s=1.0)
    assert not other.agrees
