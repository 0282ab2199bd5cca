"""What the worker keeps of an episode between its turns."""

from __future__ import annotations

from typing import Any

import pytest

from robot_sdk.errors import EpisodeLostError
from robot_sdk.messages import Sampling
from server.brain.interface import StoredImage, Tool
from server.brain.rendering.interface import PromptDraft
from server.brain.vllm_engine.episodes import Answer, HostedEpisodes
from server.brain.vllm_engine.turn_frame import HostedTurn

TOOL = Tool("look", "", "{}")


class FakeTranscript:
    """Remembers what was committed."""

    def __init__(self) -> None:
        self.committed: list[Any] = []

    def commit(self, draft: PromptDraft, output_ids: list[int], num_prompt_tokens: int) -> None:
        self.committed.append((draft, output_ids, num_prompt_tokens))


def hosted(index: int, tools: tuple[Tool, ...] = ()) -> HostedTurn:
    return HostedTurn("e", index, (), tools, Sampling(), {"a": StoredImage(1, 1, 1, b"")}, None, {})


def answer(index: int) -> Answer:
    return Answer(index, PromptDraft([1], (), 1, 0), [2, 3], 1)


@pytest.fixture
def episodes() -> HostedEpisodes:
    return HostedEpisodes(FakeTranscript)  # type: ignore[arg-type]


def test_a_turn_counts_at_its_commit_and_not_before(episodes: HostedEpisodes) -> None:
    episode = episodes.begin(hosted(0, (TOOL,)))
    episode.answer = answer(0)
    assert episode.transcript.committed == []  # type: ignore[attr-defined]

    episodes.commit("e", 0)

    assert episodes.begin(hosted(1)) is episode
    assert len(episode.transcript.committed) == 1  # type: ignore[attr-defined]
    assert episode.tools == (TOOL,)


def test_an_answer_that_was_not_committed_is_dropped_by_the_next_attempt(
    episodes: HostedEpisodes,
) -> None:
    episodes.begin(hosted(0)).answer = answer(0)

    again = episodes.begin(hosted(0))
    episodes.commit("e", 0)

    assert again.answer is None
    assert again.num_committed == 0


def test_a_turn_whose_history_is_not_here_says_that_it_is_lost(episodes: HostedEpisodes) -> None:
    with pytest.raises(EpisodeLostError):
        episodes.begin(hosted(3))


def test_c3_a_commit_after_the_end_brings_nothing_back(episodes: HostedEpisodes) -> None:
    episode = episodes.begin(hosted(0))
    episode.answer = answer(0)
    episodes.end("e")
    episodes.commit("e", 0)

    assert episode.transcript.committed == []  # type: ignore[attr-defined]
    with pytest.raises(EpisodeLostError):
        episodes.begin(hosted(1))
