"""The driver between streams, batcher and workers; the workers are played by the test."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from robot_sdk.api.v1 import policy_pb2
from robot_sdk.clock import VirtualClock
from robot_sdk.errors import (
    BadModelOutputError,
    DeadlineExceededError,
    OverloadedError,
    WorkerUnavailableError,
    from_detail,
)
from robot_sdk.spec_codec import encode_spec
from server.core.batching import (
    STUDY_TABLE,
    Accepted,
    Batch,
    DeadlineBatcher,
    LatencyLearner,
    LatencyRow,
    LatencyTable,
    Refused,
    StreamRate,
    TierStatus,
    TooSlow,
    Verdict,
    Waiting,
)
from server.policy.driver import Answer, ChunkStream, PolicyDriver
from server.worker.framing import Frame
from server.worker.supervisor import WorkerState
from tests.fakes.policies import spec


class PlayedWorker:
    """Takes what the driver sends; the test says what becomes of it."""

    retry_after_s = 0.7
    pid = None

    def __init__(self, driver: PolicyDriver, index: int) -> None:
        self._driver = driver
        self._index = index
        self.name = f"worker {index}"
        self.state = WorkerState.LOADING
        self.sent: list[dict[str, Any]] = []
        self.num_kills = 0

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def send(self, header: dict[str, Any], body: bytes = b"") -> None:
        self.sent.append(header)

    def kill(self) -> None:
        self.num_kills += 1

    def get_ready(self) -> None:
        self.state = WorkerState.READY
        self._driver._ready(self._index, Frame({"op": "ready"}, SPEC))

    def finish(self, infer_s: float = 0.1) -> None:
        """Answer the last batch with one empty chunk each."""
        self.answer(self.result(infer_s))

    def answer(self, header: dict[str, Any], body: bytes = b"") -> None:
        self._driver._finished(self._index, Frame(header, body))

    def result(self, infer_s: float = 0.1) -> dict[str, Any]:
        """Header of a good answer to the last batch."""
        answer = {
            "failed": False,
            "length": 0,
            "preprocess_s": 0.0,
            "vision_s": None,
            "prefill_s": None,
            "denoise_s": None,
        }
        return {
            "op": "result",
            "infer_s": infer_s,
            "modelled_delay_s": None,
            "answers": [dict(answer) for _ in self.sent[-1]["items"]],
        }

    def die(self) -> None:
        self.state = WorkerState.DOWN
        self._driver._lost(self._index)


SPEC = encode_spec(spec()).SerializeToString()


class ScriptedBatcher:
    """Does what the test says and remembers what it was told."""

    name = "scripted"

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []
        self.line: list[Waiting[Any]] = []
        self.verdict: Verdict = Accepted()
        #: Answers of `take`, first one first; afterwards everything that waits.
        self.decisions: list[Callable[[], Batch[Any]]] = []
        self.rates: list[StreamRate] = []

    def __len__(self) -> int:
        return len(self.line)

    def open_stream(self, stream: int, rate: StreamRate, now_s: float) -> Verdict:
        self.rates.append(rate)
        return self.verdict

    def close_stream(self, stream: int) -> Waiting[Any] | None:
        return self.withdraw(stream)

    def add(self, item: Waiting[Any]) -> Waiting[Any] | None:
        replaced = self.withdraw(item.stream)
        self.line.append(item)
        return replaced

    def withdraw(self, stream: int) -> Waiting[Any] | None:
        for item in self.line:
            if item.stream == stream:
                self.line.remove(item)
                return item
        return None

    def expire(self, now_s: float) -> tuple[Waiting[Any], ...]:
        late = tuple(item for item in self.line if item.is_late(now_s))
        for item in late:
            self.line.remove(item)
        return late

    def take(self, now_s: float, worker: int = 0) -> Batch[Any]:
        self.told.append(("take", worker, now_s))
        if self.decisions:
            return self.decisions.pop(0)()
        items, self.line = tuple(self.line), []
        return Batch(items, ())

    def take_one(self) -> Batch[Any]:
        return Batch((self.line.pop(0),), ())

    def on_ready(self, worker: int, now_s: float) -> None:
        self.told.append(("ready", worker))

    def on_finished(self, worker: int, batch_size: int, latency_s: float, now_s: float) -> None:
        self.told.append(("finished", worker, batch_size, latency_s))

    def on_lost(self, worker: int, now_s: float) -> None:
        self.told.append(("lost", worker))

    def next_observation_in_s(self, stream: int, now_s: float) -> float | None:
        return 10.0 * stream + now_s

    def status(self, now_s: float) -> TierStatus:
        self.told.append(("status", now_s))
        return TierStatus(self.name, 0, len(self.line), 0, 0, None, None, ())


class Tier:
    """A driver with played workers, and the timers it set."""

    def __init__(self, num_workers: int = 1, **options: Any) -> None:
        self.clock = VirtualClock()
        self.batcher = ScriptedBatcher()
        self.answers: list[Answer] = []
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.driver = PolicyDriver(
            "mine",
            {},
            batcher=self.batcher,  # type: ignore[arg-type]
            num_workers=num_workers,
            max_batch=4,
            max_message_bytes=4096,
            infer_timeout_s=5.0,
            clock=self.clock,
            **options,
        )
        self.workers: list[PlayedWorker] = []
        self.driver._supervisor = self._hire  # type: ignore[method-assign,assignment]

    def _hire(self, index: int, descriptor: int) -> PlayedWorker:
        self.workers.append(PlayedWorker(self.driver, index))
        return self.workers[-1]

    def begin(self) -> Tier:
        asyncio.get_running_loop().call_later = self._call_later  # type: ignore[method-assign,assignment]
        return self

    def _call_later(self, delay_s: float, callback: Callable[[], None], *_: Any) -> Any:
        entry = (self.clock.now_s() + delay_s, callback)
        self.timers.append(entry)

        class Handle:
            def cancel(handle) -> None:  # noqa: N805
                if entry in self.timers:
                    self.timers.remove(entry)

        return Handle()

    def open(self, control_hz: float = 20.0) -> ChunkStream:
        return self.driver.open_stream("go", None, control_hz, self.answers.append)

    def submit(self, stream: ChunkStream, sequence: int = 1, **fields: Any) -> None:
        observation = policy_pb2.Observation(sequence=sequence, control_step=7, **fields)
        self.driver.submit(stream, b"raw", observation, self.clock.now_s())

    def errors(self) -> list[Exception]:
        return [from_detail(a.error) for a in self.answers if a.error is not None]

    def batches(self, worker: int = 0) -> list[int]:
        return [len(header["items"]) for header in self.workers[worker].sent]


def play(script: Callable[[Tier], None], num_workers: int = 1, **options: Any) -> None:
    """Run a script on an event loop, with all workers ready."""

    async def main() -> None:
        tier = Tier(num_workers, **options).begin()
        await tier.driver.start()
        for worker in tier.workers:
            worker.get_ready()
        tier.batcher.told.clear()
        script(tier)

    asyncio.run(main())


def test_a_batcher_that_waits_is_asked_again_at_the_time_it_named() -> None:
    def script(tier: Tier) -> None:
        stream = tier.open()
        tier.batcher.decisions = [lambda: Batch((), (), wake_at_s=0.25)]
        tier.submit(stream)
        assert tier.batches() == []
        ((due_s, wake),) = tier.timers
        assert due_s == 0.25
        tier.clock.advance(0.25)
        wake()
        assert tier.batches() == [1]

    play(script)


def test_an_arrival_replaces_the_time_to_wake_up() -> None:
    def script(tier: Tier) -> None:
        first, second = tier.open(), tier.open()
        tier.batcher.decisions = [
            lambda: Batch((), (), wake_at_s=0.25),
            lambda: Batch((), (), wake_at_s=0.10),
        ]
        tier.submit(first)
        tier.submit(second)
        assert [due_s for due_s, _ in tier.timers] == [0.10]

    play(script)


def test_a_stream_that_leaves_lets_those_that_waited_for_it_go() -> None:
    def script(tier: Tier) -> None:
        waited_for, waiting = tier.open(), tier.open()
        tier.batcher.decisions = [lambda: Batch((), (), wake_at_s=9.0)]
        tier.submit(waiting)
        tier.driver.close_stream(waited_for)
        assert tier.batches() == [1]
        assert tier.timers == []

    play(script)


def test_each_free_worker_is_asked_by_its_number() -> None:
    def script(tier: Tier) -> None:
        streams = [tier.open() for _ in range(2)]
        tier.batcher.decisions = [lambda: Batch((), (), None), lambda: Batch((), (), None)]
        tier.submit(streams[0])
        tier.batcher.decisions = [tier.batcher.take_one, tier.batcher.take_one]
        tier.submit(streams[1])
        assert (tier.batches(0), tier.batches(1)) == ([1], [1])

    play(script, num_workers=2)


def test_the_batcher_learns_the_time_from_hand_over_to_result() -> None:
    def script(tier: Tier) -> None:
        tier.submit(tier.open())
        tier.clock.advance(0.3)
        tier.workers[0].finish(infer_s=0.1)
        assert ("finished", 0, 1, pytest.approx(0.3)) in tier.batcher.told
        assert tier.answers[0].timing.infer_s == pytest.approx(0.1)

    play(script)


def test_the_next_batch_leaves_before_the_answers_of_the_last_one() -> None:
    async def main() -> None:
        tier = Tier().begin()
        await tier.driver.start()
        tier.workers[0].get_ready()
        seen: list[int] = []
        streams = [
            tier.driver.open_stream("go", None, 20.0, lambda _: seen.append(len(tier.batches())))
            for _ in range(2)
        ]
        for stream in streams:
            tier.submit(stream)
        tier.workers[0].finish()
        assert seen == [2]

    asyncio.run(main())


def _without_answers(header: dict[str, Any]) -> bytes:
    del header["answers"]
    return b""


def _one_answer_short(header: dict[str, Any]) -> bytes:
    header["answers"].pop()
    return b""


def _last_answer_without_a_length(header: dict[str, Any]) -> bytes:
    del header["answers"][-1]["length"]
    return b""


def _time_that_is_no_number(header: dict[str, Any]) -> bytes:
    header["infer_s"] = "long"
    return b""


def _chunk_that_is_no_tensor(header: dict[str, Any]) -> bytes:
    header["answers"][-1]["length"] = 1
    return b"\xff"


def _body_cut_short(header: dict[str, Any]) -> bytes:
    header["answers"][-1]["length"] = 1
    return b""


@pytest.mark.parametrize(
    "spoil",
    [
        _without_answers,
        _one_answer_short,
        _last_answer_without_a_length,
        _time_that_is_no_number,
        _chunk_that_is_no_tensor,
        _body_cut_short,
    ],
)
def test_an_answer_that_cannot_be_read_fails_its_whole_batch_and_the_next_one_runs(
    spoil: Callable[[dict[str, Any]], bytes], caplog: pytest.LogCaptureFixture
) -> None:
    def script(tier: Tier) -> None:
        streams = [tier.open() for _ in range(4)]
        tier.submit(streams[0])
        for stream in streams[1:]:
            tier.submit(stream, sequence=2)
        tier.workers[0].finish()
        tier.answers.clear()
        tier.submit(streams[0], sequence=3)
        header = tier.workers[0].result()
        body = spoil(header)
        tier.workers[0].answer(header, body)
        assert [answer.sequence for answer in tier.answers] == [2, 2, 2]
        assert {type(error) for error in tier.errors()} == {BadModelOutputError}
        assert len(tier.errors()) == tier.driver.totals.failed == 3
        assert tier.batches() == [1, 3, 1]
        tier.workers[0].finish()
        assert [answer.sequence for answer in tier.answers] == [2, 2, 2, 3]
        assert (tier.driver.num_running, tier.driver.totals.chunks) == (0, 2)

    play(script)
    assert "worker 0 sent an answer that cannot be read" in caplog.text


def test_a_frame_that_nobody_waits_for_is_logged_and_teaches_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def script(tier: Tier) -> None:
        tier.workers[0].answer({"op": "result"})
        assert tier.batcher.told == []
        assert tier.driver.totals.batches == 0

    play(script)
    assert "worker 0 sent a frame that nobody waits for" in caplog.text


def test_a_lost_worker_is_told_to_the_batcher_and_fails_its_batch_alone() -> None:
    def script(tier: Tier) -> None:
        streams = [tier.open() for _ in range(3)]
        tier.submit(streams[0])
        tier.submit(streams[1])
        tier.submit(streams[2])
        tier.workers[0].die()
        assert ("lost", 0) in tier.batcher.told
        assert [type(e) for e in tier.errors()] == [WorkerUnavailableError]
        assert tier.batches(1) == [1]
        assert tier.driver.num_waiting == 1
        tier.workers[1].finish()
        assert tier.batches(1) == [1, 1]

    play(script, num_workers=2)


def test_with_no_worker_left_what_waits_fails_with_the_time_to_come_back() -> None:
    def script(tier: Tier) -> None:
        streams = [tier.open() for _ in range(2)]
        tier.submit(streams[0])
        tier.submit(streams[1])
        tier.workers[0].die()
        assert [e.retry_after_s for e in tier.errors()] == [0.7, 0.7]  # type: ignore[attr-defined]

    play(script)


def test_a_worker_that_answers_while_it_is_being_killed_gets_no_new_batch() -> None:
    def script(tier: Tier) -> None:
        streams = [tier.open() for _ in range(2)]
        tier.submit(streams[0])
        tier.submit(streams[1])
        tier.clock.advance(5.1)
        tier.driver.step()
        assert tier.workers[0].num_kills == 1
        tier.workers[0].finish()
        assert tier.batches() == [1]
        tier.workers[0].die()
        tier.workers[0].get_ready()
        tier.submit(streams[0], sequence=2)
        assert len(tier.batches()) == 2

    play(script)


def test_a_stream_closed_while_its_observation_is_in_a_batch_hears_nothing_more() -> None:
    def script(tier: Tier) -> None:
        gone, stays = tier.open(), tier.open()
        tier.submit(gone)
        tier.submit(stays)
        tier.driver.close_stream(gone)
        tier.workers[0].finish()
        assert tier.answers == []
        assert tier.batches() == [1, 1]
        tier.workers[0].finish()
        assert [answer.sequence for answer in tier.answers] == [1]
        assert (tier.driver.num_running, tier.driver.num_waiting) == (0, 0)

    play(script)


def test_a_refused_stream_beside_another_is_told_a_rate_that_fits() -> None:
    def script(tier: Tier) -> None:
        tier.open()
        tier.batcher.verdict = Refused("too many", 12.5)
        with pytest.raises(OverloadedError, match=r"at most 12\.5 Hz") as refused:
            tier.open()
        assert refused.value.value == "20.0"
        assert refused.value.retry_after_s is not None
        assert tier.driver.totals.refused_streams == 1
        assert tier.driver.num_streams == 1
        assert tier.batcher.rates[0] == StreamRate(20.0, 5, 10)

    play(script)


def test_a_robot_that_will_starve_alone_is_paced_as_the_batcher_says_and_the_log_tells_why(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def script(tier: Tier) -> None:
        tier.batcher.verdict = Accepted(0.125, TooSlow("one batch takes 3 s", None))
        stream = tier.open()
        assert stream.first_observation_in_s == 0.125
        tier.submit(stream)
        assert tier.batches() == [1]
        assert tier.driver.totals.refused_streams == 0

    play(script)
    assert "policy mine is too slow even for one robot: one batch takes 3 s" in caplog.text


def test_the_driver_overrules_no_refusal() -> None:
    def script(tier: Tier) -> None:
        tier.batcher.verdict = Refused("too many", None)
        with pytest.raises(OverloadedError, match="too many"):
            tier.open()
        assert (tier.driver.num_streams, tier.driver.totals.refused_streams) == (0, 1)

    play(script)


def test_a_second_robot_is_judged_beside_the_first_that_starves() -> None:
    rows = (LatencyRow(1, 0.4), LatencyRow(4, 0.8))
    table = LatencyTable(**{**vars(STUDY_TABLE), "rows": rows})

    def script(tier: Tier) -> None:
        tier.driver._batcher = DeadlineBatcher(4, LatencyLearner(table))
        tier.open()
        # Alone it would fit: five steps at 5 Hz last for 1 s.
        with pytest.raises(OverloadedError, match="carry 1 robots"):
            tier.open(control_hz=5.0)
        tier.clock.advance(1.0)
        assert (tier.driver.tier_status().num_streams, tier.driver.num_streams) == (1, 1)
        assert tier.driver.tier_status().num_refused == tier.driver.totals.refused_streams == 1

    play(script)


def test_the_first_observation_is_the_batchers_and_the_next_one_is_asked_for_when_sent() -> None:
    def script(tier: Tier) -> None:
        tier.batcher.verdict = Accepted(0.125)
        stream = tier.open()
        assert stream.first_observation_in_s == 0.125
        tier.clock.advance(2.0)
        assert tier.driver.next_observation_in_s(stream) == 10.0 * stream.number + 2.0

    play(script)


def test_step_and_rows_of_an_observation_reach_the_batcher() -> None:
    def script(tier: Tier) -> None:
        tier.batcher.decisions = [lambda: Batch((), (), None)]
        tier.submit(tier.open(), buffered_steps=4)
        (item,) = tier.batcher.line
        assert (item.control_step, item.buffered_steps) == (7, 4)

    play(script)


@pytest.mark.parametrize(("fields", "expires_s"), [({}, 0.5), ({"deadline_s": 0.2}, 0.2)])
def test_the_default_deadline_counts_for_observations_without_one(
    fields: dict[str, float], expires_s: float
) -> None:
    def script(tier: Tier) -> None:
        tier.submit(tier.open())  # keeps the worker busy
        tier.submit(tier.open(), **fields)
        tier.clock.advance(expires_s - 0.01)
        tier.driver.step()
        assert tier.errors() == []
        tier.clock.advance(0.02)
        tier.driver.step()
        assert [type(e) for e in tier.errors()] == [DeadlineExceededError]
        assert tier.driver.totals.expired == 1

    play(script, default_deadline_s=0.5)


def test_devices_go_round_the_workers() -> None:
    driver = Tier(3, devices=("0", "1")).driver
    seen = [driver._environment(index) for index in range(3)]
    assert [item["CUDA_VISIBLE_DEVICES"] for item in seen] == ["0", "1", "0"]
    assert Tier(1).driver._environment(0) == {}


def test_the_status_is_not_made_anew_for_every_look() -> None:
    def script(tier: Tier) -> None:
        for _ in range(50):
            tier.clock.advance(0.1)
            tier.driver.step()
            tier.driver.tier_status()
        made = [entry for entry in tier.batcher.told if entry[0] == "status"]
        assert 4 <= len(made) <= 6

    play(script)


def test_a_stopped_driver_does_not_wake_up() -> None:
    async def main() -> None:
        tier = Tier().begin()
        await tier.driver.start()
        tier.workers[0].get_ready()
        stream = tier.open()
        tier.batcher.decisions = [lambda: Batch((), (), wake_at_s=0.25)]
        tier.submit(stream)
        await tier.driver.stop()
        assert tier.timers == []
        tier.driver.close_stream(stream)
        assert tier.batches() == []

    asyncio.run(main())
