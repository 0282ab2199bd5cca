"""The brain of a fake server: a function of the request, with commits and replays."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from robot_sdk.api.v1 import brain_pb2
from robot_sdk.clock import Clock, to_ns
from robot_sdk.errors import (
    CancelledByServerError,
    InternalServerError,
    OutOfOrderError,
    RobotSdkError,
    ServerUnavailableError,
)
from robot_sdk.message_codec import encode_usage
from robot_sdk.messages import FinishReason, TokenUsage, ToolCall
from robot_sdk.testing.fake_episodes import FakeEpisode, FakeEpisodes
from robot_sdk.testing.responses import Responses

_FINISH_REASONS: dict[FinishReason, brain_pb2.FinishReason] = {
    "stop": brain_pb2.FINISH_REASON_STOP,
    "length": brain_pb2.FINISH_REASON_LENGTH,
    "aborted": brain_pb2.FINISH_REASON_ABORTED,
}


@dataclass(frozen=True)
class FakeDecision:
    """What a scripted brain says in one turn.

    Attributes:
        delay_s: Thinking time on the fake server's clock.
    """

    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: FinishReason = "stop"
    usage: TokenUsage = field(default_factory=TokenUsage)
    delay_s: float = 0.0


Brain = Callable[[brain_pb2.DecideRequest], FakeDecision]


@dataclass
class BrainFaults:
    """One-shot faults. Each is used up by the next turn it meets."""

    break_before_commit: int = 0
    break_after_commit: int = 0


class FakeDecideSession:
    """The server's half of one Decide call; runs on a thread of its own."""

    def __init__(
        self,
        request: brain_pb2.DecideRequest,
        episodes: FakeEpisodes,
        brain: Brain,
        faults: BrainFaults,
        clock: Clock,
    ) -> None:
        self.responses: Responses[brain_pb2.DecideResponse] = Responses()
        self._request = request
        self._episodes = episodes
        self._brain = brain
        self._faults = faults
        self._clock = clock
        self._cancelled = threading.Condition()

    def start(self) -> None:
        """Run the turn."""
        threading.Thread(target=self._run, name="fake-decide", daemon=True).start()

    def cancel(self) -> None:
        """What a client's cancel does."""
        self.responses.fail(CancelledByServerError("the call was cancelled"))
        with self._cancelled:
            self._cancelled.notify_all()

    def break_off(self) -> None:
        """What a cut connection does."""
        self.responses.fail(ServerUnavailableError("the connection broke"))
        with self._cancelled:
            self._cancelled.notify_all()

    def _run(self) -> None:
        received_ns = to_ns(self._clock.now_s())
        try:
            episode = self._episodes.find(self._request.episode)
            record = episode.committed.get(self._request.turn_index)
            self._accept(received_ns, replayed=record is not None)
            if record is None:
                record = self._decide(episode, received_ns)
            if record is None:
                return
            for response in record:
                self.responses.put(response)
            self.responses.finish()
        except RobotSdkError as error:
            self.responses.fail(error)
        except Exception:  # noqa: BLE001  (a scripted brain may raise anything)
            self.responses.fail(InternalServerError("the brain failed"))

    def _accept(self, received_ns: int, *, replayed: bool) -> None:
        accepted = brain_pb2.DecideAccepted(server_received_ns=received_ns, replayed=replayed)
        self.responses.put(brain_pb2.DecideResponse(accepted=accepted))

    def _decide(
        self, episode: FakeEpisode, received_ns: int
    ) -> list[brain_pb2.DecideResponse] | None:
        """Run and commit the turn; None if the connection broke on the way."""
        if self._request.turn_index != len(episode.committed):
            raise OutOfOrderError(
                "the turn does not follow the last committed one",
                field="turn_index",
                value=self._request.turn_index,
                allowed=[len(episode.committed)],
            )
        decision = self._brain(self._request)
        if decision.delay_s > 0:
            self._think(decision.delay_s)
        if self.responses.is_over:
            return None
        if self._faults.break_before_commit > 0:
            self._faults.break_before_commit -= 1
            self.responses.put(
                brain_pb2.DecideResponse(text=brain_pb2.TextDelta(text="lost words"))
            )
            self.break_off()
            return None
        record = self._record(decision, received_ns)
        episode.committed[self._request.turn_index] = record
        if self._faults.break_after_commit > 0:
            self._faults.break_after_commit -= 1
            self.break_off()
            return None
        return record

    def _think(self, delay_s: float) -> None:
        end_s = self._clock.now_s() + delay_s
        with self._cancelled:
            while not self.responses.is_over:
                remaining_s = end_s - self._clock.now_s()
                if remaining_s <= 0:
                    return
                self._clock.wait(self._cancelled, remaining_s)

    def _record(self, decision: FakeDecision, received_ns: int) -> list[brain_pb2.DecideResponse]:
        record = []
        if decision.reasoning:
            delta = brain_pb2.ReasoningDelta(text=decision.reasoning)
            record.append(brain_pb2.DecideResponse(reasoning=delta))
        if decision.text:
            record.append(brain_pb2.DecideResponse(text=brain_pb2.TextDelta(text=decision.text)))
        for call in decision.tool_calls:
            wire = brain_pb2.ToolCall(
                tool_call_id=call.id, name=call.name, arguments_json=call.arguments_json
            )
            record.append(brain_pb2.DecideResponse(tool_call=wire))
        done = brain_pb2.DecideDone(
            turn_index=self._request.turn_index,
            finish_reason=_FINISH_REASONS[decision.finish_reason],
            usage=encode_usage(decision.usage),
            timing=brain_pb2.BrainTiming(
                server_received_ns=received_ns,
                server_done_ns=to_ns(self._clock.now_s()),
                modelled_delay_s=decision.delay_s or None,
            ),
            engine="fake",
            model="fake",
        )
        record.append(brain_pb2.DecideResponse(done=done))
        return record
