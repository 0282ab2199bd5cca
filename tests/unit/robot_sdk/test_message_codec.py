"""Conversation values on the wire."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from robot_sdk.message_codec import decode_usage, encode_usage
from robot_sdk.messages import TokenUsage

counts = st.none() | st.integers(0, 2**31 - 1)


@given(st.builds(TokenUsage, counts, counts, counts, counts, counts, counts, st.booleans()))
def test_d6_usage_comes_back_as_it_was_and_zero_is_not_unknown(usage: TokenUsage) -> None:
    assert decode_usage(encode_usage(usage)) == usage
