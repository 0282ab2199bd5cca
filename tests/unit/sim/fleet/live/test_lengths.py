from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_sdk.messages import TokenUsage
from sim.fleet.live.lengths import PROBE_WORDS, LengthReport, WordLengths, measured_lengths
from sim.fleet.live.words import WORDS, random_words


def usages(per_word: float, first: int, later: int, tells_new: bool) -> list[TokenUsage]:
    """Of a server that writes so many tokens for a word, and around a turn."""
    found = []
    context = 0
    for index, words in enumerate(PROBE_WORDS):
        new = round(per_word * words) + (later if index else first)
        context += new
        found.append(
            TokenUsage(input_tokens=context, output_tokens=3, new_tokens=new if tells_new else None)
        )
        context += 3
    return found


@pytest.mark.parametrize("tells_new", [True, False])
@given(st.sampled_from([1.0, 1.25, 2.0]), st.integers(0, 900), st.integers(0, 30))
def test_what_a_word_costs_is_found_and_then_lengths_are_met(
    tells_new: bool, per_word: float, first: int, later: int
) -> None:
    lengths = measured_lengths(usages(per_word, first, later, tells_new))
    assert lengths == WordLengths(per_word, first, later)
    for is_first, overhead in ((True, first), (False, later)):
        for wanted in (overhead + 10, 5000):
            words = lengths.num_words(wanted, is_first)
            assert per_word * words + overhead == pytest.approx(wanted, abs=per_word / 2)


def test_a_turn_has_a_word_even_where_its_overhead_is_already_too_long() -> None:
    assert WordLengths(1.0, 100.0, 8.0).num_words(3, is_first=False) == 1


def test_a_server_that_does_not_count_tells_nothing_about_words() -> None:
    assert measured_lengths([TokenUsage()] * 3) is None
    same = TokenUsage(input_tokens=50, output_tokens=1, new_tokens=8)
    assert measured_lengths([same] * 3) is None


def test_a_report_sums_and_keeps_the_worst_prompt() -> None:
    report = LengthReport(WordLengths(2.0, 10.0, 5.0))
    assert report.prompt_share is None
    report = report.with_turn(100, 10, TokenUsage(input_tokens=98, output_tokens=10))
    report = report.with_turn(200, 10, TokenUsage(input_tokens=205, output_tokens=4))
    unknown = report.with_turn(300, 10, TokenUsage())
    assert unknown == report
    assert (report.turns, report.worst_prompt_tokens) == (2, 5)
    assert report.prompt_share == pytest.approx(303 / 300)
    assert report.output_share == pytest.approx(14 / 20)
    assert "101.0%" in str(report)
    assert "2 tokens a word" in str(report)


def test_words_are_counted_repeatable_and_of_their_key_alone() -> None:
    text = random_words(200, "run 1 robot 2")
    assert len(text.split(" ")) == 200
    assert set(text.split(" ")) <= set(WORDS)
    assert text == random_words(200, "run 1 robot 2")
    other = random_words(200, "run 1 robot 3")
    assert text.split(" ")[:8] != other.split(" ")[:8]


def test_every_word_is_as_many_tokens_as_any_other_for_the_tiny_models(tmp_path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    from server.brain.tiny_model import write_tiny_text_model

    file = write_tiny_text_model(tmp_path) / "tokenizer.json"
    tokenizer = tokenizers.Tokenizer.from_file(str(file))
    assert {len(tokenizer.encode(f" {word}").ids) for word in WORDS} == {2}
