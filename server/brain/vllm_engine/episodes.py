"""What the worker keeps of each episode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from robot_sdk.errors import EpisodeLostError
from server.brain.interface import Tool
from server.brain.rendering.interface import PromptDraft
from server.brain.rendering.token_transcript import TokenTranscript
from server.brain.vllm_engine.pictures import EpisodePictures
from server.brain.vllm_engine.seen_prefix import SeenPrefix
from server.brain.vllm_engine.turn_frame import HostedTurn


@dataclass(frozen=True)
class Answer:
    """A finished turn that may still be committed. `num_prompt_tokens` as the engine counted it."""

    turn_index: int
    draft: PromptDraft
    output_ids: list[int]
    num_prompt_tokens: int


@dataclass
class HostedEpisode:
    """A conversation in tokens.

    Attributes:
        tools: What turn 0 told.
        seen: What the engine has computed of it last; None: nothing so far.
    """

    transcript: TokenTranscript
    pictures: EpisodePictures = field(default_factory=EpisodePictures)
    tools: tuple[Tool, ...] = ()
    num_committed: int = 0
    answer: Answer | None = None
    seen: SeenPrefix | None = None


class HostedEpisodes:
    """All episodes of the worker.

    Args:
        new_transcript: Makes an empty one.
    """

    def __init__(self, new_transcript: Callable[[], TokenTranscript]) -> None:
        self._new_transcript = new_transcript
        self._episodes: dict[str, HostedEpisode] = {}

    def begin(self, turn: HostedTurn) -> HostedEpisode:
        """The episode of a turn that is about to run. An answer that was not committed is dropped.

        Raises:
            EpisodeLostError: The turns before this one are not here.
        """
        episode = self._episodes.get(turn.episode_id)
        if episode is None:
            episode = HostedEpisode(self._new_transcript())
        if turn.turn_index != episode.num_committed:
            raise EpisodeLostError(
                "the conversation up to this turn is gone",
                field="turn_index",
                value=turn.turn_index,
                allowed=(episode.num_committed,),
                hint="start a new episode",
            )
        self._episodes[turn.episode_id] = episode
        episode.answer = None
        episode.pictures.add(turn.images)
        if turn.turn_index == 0:
            episode.tools = turn.tools
        return episode

    def commit(self, episode_id: str, turn_index: int) -> None:
        """The answer to a turn counts. Without effect if the episode has ended."""
        episode = self._episodes.get(episode_id)
        if episode is None or episode.answer is None or episode.answer.turn_index != turn_index:
            return
        answer, episode.answer = episode.answer, None
        episode.transcript.commit(answer.draft, answer.output_ids, answer.num_prompt_tokens)
        episode.num_committed += 1
        if episode.seen is not None:
            episode.seen = episode.seen.with_output(answer.output_ids)

    def get(self, episode_id: str) -> HostedEpisode | None:
        """None: it has had no turn, or has ended."""
        return self._episodes.get(episode_id)

    def end(self, episode_id: str) -> None:
        """Forget it. A turn that is being worked on loses its episode and nothing else."""
        self._episodes.pop(episode_id, None)
