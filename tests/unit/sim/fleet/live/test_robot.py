"""Robots against a fake server in this process."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from robot_sdk.api.v1 import brain_pb2
from robot_sdk.client import Client, connect
from robot_sdk.clock import SYSTEM_CLOCK
from robot_sdk.errors import BadModelOutputError, InternalServerError
from robot_sdk.messages import TokenUsage, ToolCall
from robot_sdk.testing import FakeDecision, FakeServer, FakeTransport
from server.core.residency import EngineGauges
from sim.fleet.live.books import Books
from sim.fleet.live.lengths import WordLengths
from sim.fleet.live.robot import LiveRobot, messages_of
from sim.fleet.workload.trace import EpisodeTrace, TurnTrace
from tests.contract.waiting import eventually

TRACE = EpisodeTrace("a", "sort", (TurnTrace(100, 10), TurnTrace(30, 5), TurnTrace(20, 5)))
BLOCK_TOKENS = 10
#: What the fake brain's chat format writes around the words of a turn.
OVERHEAD = 4


class Setup:
    """One robot and what it needs. `keeps`: whether the cache finds the whole prefix."""

    def __init__(self, cap: int | None = None, keeps: bool = True, **options: object) -> None:
        self.keeps = keeps
        self._contexts: dict[str, int] = {}
        self.server = FakeServer(brain=self.decide, cap=cap)
        self.client: Client = connect("fake:1", transport=FakeTransport(self.server))
        lengths = WordLengths(1.0, OVERHEAD, OVERHEAD)
        self.books = Books(itertools.repeat(TRACE), lengths, 0.0, SYSTEM_CLOCK)
        self.books.set_pool(EngineGauges(block_tokens=BLOCK_TOKENS))
        self.books.join(0)
        self.robot = LiveRobot(
            *(0, self.client, self.books, "run", lengths),
            uses_wall=False,
            turn_timeout_s=10.0,
            **{"episodes_per_robot": 2, **options},  # type: ignore[arg-type]
        )

    def decide(self, request: brain_pb2.DecideRequest) -> FakeDecision:
        words = sum(len(part.text.split()) for item in request.new_messages for part in item.parts)
        before = self._contexts.get(request.episode.episode_id, 0)
        prompt = before + words + OVERHEAD
        output = request.sampling.max_output_tokens
        self._contexts[request.episode.episode_id] = prompt + output
        cached = max(before - 1, 0) // BLOCK_TOKENS * BLOCK_TOKENS if self.keeps else 0
        return FakeDecision(
            usage=TokenUsage(
                input_tokens=prompt,
                cached_tokens=cached,
                computed_tokens=prompt - cached,
                output_tokens=output,
                new_tokens=prompt - before,
            )
        )

    def close(self) -> None:
        self.books.stop()
        self.robot.break_off("the test is over")
        eventually(lambda: self.robot.has_left)
        self.client.close()


@pytest.fixture
def setups() -> Iterator[list[Setup]]:
    made: list[Setup] = []
    yield made
    for setup in made:
        setup.close()


def test_a_robot_sends_its_traces_lengths_and_leaves_after_its_batch(setups: list[Setup]) -> None:
    setup = Setup()
    setups.append(setup)
    setup.robot.set_wants_work(True)
    eventually(lambda: setup.robot.has_left)

    books = setup.books
    assert books.error is None
    assert books.tally.episodes_by_robot == {0: 2}
    assert books.tally.total.turns == 6
    assert (books.tally.total.hits, books.tally.total.misses) == (4, 0)
    assert books.tally.total.generated_tokens == 2 * (10 + 5 + 5)
    assert books.report.worst_prompt_tokens == 0
    assert books.report.prompt_tokens == 2 * sum(TRACE.prompt_tokens)
    assert [len(item.latencies_s) for item in books.tally.episodes] == [3, 3]
    assert all(item.is_complete for item in books.tally.episodes)


def test_a_prefix_that_was_not_found_is_a_miss(setups: list[Setup]) -> None:
    setup = Setup(keeps=False, episodes_per_robot=1)
    setups.append(setup)
    setup.robot.set_wants_work(True)
    eventually(lambda: setup.robot.has_left)
    assert (setup.books.tally.total.hits, setup.books.tally.total.misses) == (0, 2)


def test_no_two_turns_or_episodes_say_the_same(setups: list[Setup]) -> None:
    texts: list[str] = []
    setup = Setup()
    setups.append(setup)
    answer = setup.server.brain

    def note(request: brain_pb2.DecideRequest) -> FakeDecision:
        texts.append(request.new_messages[0].parts[0].text[:40])
        return answer(request)

    setup.server.brain = note
    setup.robot.set_wants_work(True)
    eventually(lambda: setup.robot.has_left)
    assert len(set(texts)) == len(texts) == 6


def test_a_robot_that_is_not_wanted_leaves_the_queue(setups: list[Setup]) -> None:
    setup = Setup(cap=0)
    setups.append(setup)
    setup.robot.set_wants_work(True)
    eventually(lambda: len(setup.server.episodes.waiting) == 1)
    setup.robot.set_wants_work(False)
    eventually(lambda: setup.robot.has_left)
    assert not setup.server.episodes.waiting
    assert not setup.books.is_over
    assert not setup.books.broken


def test_a_robot_that_is_not_wanted_finishes_its_episode_first(setups: list[Setup]) -> None:
    setup = Setup(episodes_per_robot=None)
    setups.append(setup)
    answer = setup.server.brain

    def send_home(request: brain_pb2.DecideRequest) -> FakeDecision:
        if request.turn_index == 1:
            setup.robot.set_wants_work(False)
        return answer(request)

    setup.server.brain = send_home
    setup.robot.set_wants_work(True)
    eventually(lambda: setup.robot.has_left)
    assert setup.books.tally.episodes_by_robot == {0: 1}


def test_an_end_breaks_off_a_running_turn_and_ends_the_episode(setups: list[Setup]) -> None:
    setup = Setup()
    setups.append(setup)
    setup.server.brain = lambda _: FakeDecision(delay_s=60.0)
    setup.robot.set_wants_work(True)
    eventually(lambda: len(setup.server.decide_requests) == 1)
    setup.books.stop()
    setup.robot.break_off("enough")
    eventually(lambda: setup.robot.has_left)
    assert setup.books.error is None
    assert not setup.books.broken
    assert not setup.server.episodes.active
    assert setup.books.tally.total.turns == 0


def test_an_episode_that_breaks_is_noted_and_the_third_in_a_row_ends_the_run(
    setups: list[Setup],
) -> None:
    setup = Setup()
    setups.append(setup)

    def fail(_: brain_pb2.DecideRequest) -> FakeDecision:
        raise BadModelOutputError("nonsense")

    setup.server.brain = fail
    setup.robot.set_wants_work(True)
    eventually(lambda: setup.robot.has_left)
    assert len(setup.books.broken) == 3
    assert isinstance(setup.books.error, BadModelOutputError)
    assert setup.books.tally.episodes_by_robot == {0: 0}
    assert not setup.server.episodes.active


def test_one_episode_that_breaks_does_not_end_the_run(setups: list[Setup]) -> None:
    setup = Setup()
    setups.append(setup)
    answer = setup.server.brain
    failures = iter([InternalServerError("once")])

    def fail_once(request: brain_pb2.DecideRequest) -> FakeDecision:
        for failure in failures:
            raise failure
        return answer(request)

    setup.server.brain = fail_once
    setup.robot.set_wants_work(True)
    eventually(lambda: setup.robot.has_left)
    assert setup.books.error is None
    assert len(setup.books.broken) == 1
    assert setup.books.tally.episodes_by_robot == {0: 2}


def test_a_server_that_restarted_ends_the_run(setups: list[Setup]) -> None:
    setup = Setup()
    setups.append(setup)
    answer = setup.server.brain

    def forget(request: brain_pb2.DecideRequest) -> FakeDecision:
        if request.turn_index == 1:
            setup.server.restart()
        return answer(request)

    setup.server.brain = forget
    setup.robot.set_wants_work(True)
    eventually(lambda: setup.robot.has_left)
    assert "restarted" in str(setup.books.error)


def test_calls_are_answered_with_the_words_in_the_first_result() -> None:
    calls = (ToolCall("1", "look", "{}"), ToolCall("2", "move", "{}"))
    first, second = messages_of("some words", calls)
    assert (first.role, first.tool_call_id, first.tool_name) == ("tool", "1", "look")
    assert (second.tool_call_id, second.tool_name) == ("2", "move")
    assert [part.text for part in first.parts] == ["some words"]
    (only,) = messages_of("some words", ())
    assert only.role == "user"
