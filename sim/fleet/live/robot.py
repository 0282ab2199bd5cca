"""A robot without a body: the SDK's client, a trace's lengths and gaps, and words of no meaning."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import ExitStack

from robot_sdk.backoff import Backoff
from robot_sdk.client import Client
from robot_sdk.episode import Episode
from robot_sdk.errors import (
    ClientClosedError,
    DrainingError,
    EpisodeLostError,
    OverloadedError,
    PermissionDeniedError,
    RobotSdkError,
    ServerUnavailableError,
    UnauthenticatedError,
    UnsupportedError,
)
from robot_sdk.messages import Message, Sampling, ToolCall
from sim.fleet.live.books import Books
from sim.fleet.live.lengths import WordLengths
from sim.fleet.live.words import random_words
from sim.fleet.replay.tally import EpisodeRecord
from sim.fleet.workload.trace import EpisodeTrace

TASK = "replay of an episode's lengths and gaps"
#: Errors after which no other robot will fare better.
_FATAL = (
    ClientClosedError,
    DrainingError,
    EpisodeLostError,
    PermissionDeniedError,
    ServerUnavailableError,
    UnauthenticatedError,
    UnsupportedError,
)
#: Episodes of one robot that broke one after the other, before the run is given up.
_MOST_BROKEN = 3
_END_TIMEOUT_S = 2.0


class LiveRobot:
    """One robot of a live run; its thread lives while it wants work or has an episode.

    Args:
        run_id: Of this run alone: no two runs say the same words.
        uses_wall: See `EpisodeTrace.gap_s`.
        episodes_per_robot: It leaves after so many; None: it never does.
    """

    def __init__(
        self,
        number: int,
        client: Client,
        books: Books,
        run_id: str,
        lengths: WordLengths,
        *,
        uses_wall: bool,
        turn_timeout_s: float,
        episodes_per_robot: int | None,
    ) -> None:
        self._number = number
        self._client = client
        self._books = books
        self._run_id = run_id
        self._lengths = lengths
        self._uses_wall = uses_wall
        self._turn_timeout_s = turn_timeout_s
        self._episodes_per_robot = episodes_per_robot
        self._lock = threading.Lock()
        self._wants_work = False
        self._is_running = False
        self._episode: Episode | None = None
        self._num_opened = 0
        self._num_done = 0
        self._num_broken_in_a_row = 0

    @property
    def has_left(self) -> bool:
        """It has no episode and wants none."""
        with self._lock:
            return not self._is_running

    def set_wants_work(self, wants_work: bool) -> None:
        """Join the fleet or leave it: at once if at the door, else when the episode has ended."""
        with self._lock:
            self._wants_work = wants_work
            starts = wants_work and not self._is_running and self._has_more
            self._is_running = self._is_running or starts
            at_door = self._episode if not wants_work else None
        if starts:
            name = f"live-robot-{self._number}"
            threading.Thread(target=self._live, name=name, daemon=True).start()
        if at_door is not None and not at_door.id:
            at_door.end("aborted", "the robot left the queue", timeout_s=_END_TIMEOUT_S)

    def break_off(self, reason: str) -> None:
        """End the episode, wherever it is. Never raises; may be called again."""
        with self._lock:
            episode = self._episode
        if episode is not None:
            episode.end("aborted", reason, timeout_s=_END_TIMEOUT_S)

    @property
    def _has_more(self) -> bool:
        return self._episodes_per_robot is None or self._num_done < self._episodes_per_robot

    def _goes_on(self) -> bool:
        with self._lock:
            self._is_running = self._wants_work and self._has_more and not self._books.is_over
            return self._is_running

    def _live(self) -> None:
        try:
            while self._goes_on():
                self._one_episode(self._books.next_trace())
        except Exception as error:  # noqa: BLE001 - told by whoever waits for the run
            self._books.stop(error)
            with self._lock:
                self._is_running = False

    def _one_episode(self, trace: EpisodeTrace) -> None:
        """From the door to the end; what breaks it is noted.

        Raises:
            RobotSdkError: The run cannot go on.
        """
        asked_s = self._books.now_s()
        try:
            with ExitStack() as stack:
                episode = self._come_in(stack, trace.task_family)
                if episode is not None:
                    self._inside(episode, trace, asked_s)
        except RobotSdkError as error:
            self._broke(error)
        finally:
            with self._lock:
                self._episode = None

    def _come_in(self, stack: ExitStack, task_family: str) -> Episode | None:
        """Wait at the door, and in front of it while the queue itself is full; None: gave up."""
        backoff = Backoff()
        while self._wants_work and not self._books.is_over:
            episode = self._client.episode(
                task=TASK,
                robot_id=f"replay-{self._number}",
                run_id=self._run_id,
                task_family=task_family,
            )
            with self._lock:
                self._episode = episode
            try:
                return stack.enter_context(episode)
            except OverloadedError as error:
                self._books.pause(backoff.next_s(error.retry_after_s))
        return None

    def _broke(self, error: RobotSdkError) -> None:
        if self._books.is_over or not self._wants_work:
            return  # broken off on purpose
        if isinstance(error, _FATAL):
            raise error
        self._books.broke(f"{type(error).__name__}: {error}")
        self._num_broken_in_a_row += 1
        if self._num_broken_in_a_row >= _MOST_BROKEN:
            raise error

    def _inside(self, episode: Episode, trace: EpisodeTrace, asked_s: float) -> None:
        record = self._books.came_in(episode.id, trace.task_family, asked_s)
        is_complete = False
        try:
            is_complete = self._turns(episode, trace, record)
        finally:
            self._books.ended(self._number, episode.id, record, is_complete)
        if is_complete:
            self._num_done += 1
            self._num_broken_in_a_row = 0
            episode.end("success", "replayed to its end")
        else:
            episode.end("aborted", "the replay is over")

    def _turns(self, episode: Episode, trace: EpisodeTrace, record: EpisodeRecord) -> bool:
        """Whether all were taken."""
        self._num_opened += 1
        context_tokens = 0
        calls: tuple[ToolCall, ...] = ()
        prompts = trace.prompt_tokens
        for index, (turn, prompt_tokens) in enumerate(zip(trace.turns, prompts, strict=True)):
            if index and not self._books.pause(trace.gap_s(index - 1, self._uses_wall)):
                return False
            # From where the conversation is, not from where it should be: a difference does not
            # grow from turn to turn.
            num_words = self._lengths.num_words(prompt_tokens - context_tokens, is_first=not index)
            key = f"{self._run_id} {self._number} {self._num_opened} {index}"
            self._books.turn_begins(episode.id)
            answer = episode.decide(
                messages_of(random_words(num_words, key), calls),
                deadline_s=self._turn_timeout_s,
                sampling=Sampling(max_output_tokens=turn.output_tokens),
            )
            calls = answer.tool_calls
            usage = answer.usage
            self._books.turn_ended(episode.id, record, answer, prompt_tokens, turn.output_tokens)
            context_tokens = prompt_tokens + turn.output_tokens
            if usage.input_tokens is not None and usage.output_tokens is not None:
                context_tokens = usage.input_tokens + usage.output_tokens
        return True


def messages_of(text: str, calls: Sequence[ToolCall]) -> list[Message]:
    """The text, as the user's word or as the result of what the brain has called."""
    if not calls:
        return [Message.of_text("user", text)]
    texts = [text, *("done" for _ in calls[1:])]
    return [
        Message(
            "tool",
            Message.of_text("tool", said).parts,
            tool_call_id=call.id,
            tool_name=call.name,
        )
        for said, call in zip(texts, calls, strict=True)
    ]
