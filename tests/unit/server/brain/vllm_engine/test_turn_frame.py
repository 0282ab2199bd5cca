"""A turn on its way to the process that hosts vLLM."""

from __future__ import annotations

from server.brain.interface import (
    ImagePart,
    Message,
    Sampling,
    StoredImage,
    TextPart,
    Tool,
    Turn,
)
from server.brain.vllm_engine.turn_frame import decode_turn, encode_turn
from server.worker.framing import Frame, FrameDecoder, encode

OLD = Message("user", (TextPart("old " * 1000),))
NEW = Message("user", (TextPart("é 拿"), ImagePart("a", 2, 3, "wrist"), ImagePart("b", 1, 1)))
IMAGES = {"a": StoredImage(1, 2, 3, b"\0" * 18), "b": StoredImage(2, 1, 1, b"jpeg")}
TOOL = Tool("look", "", '{"type":"object"}')


def turn(index: int = 1, **fields) -> Turn:
    values = {
        "messages": (OLD, NEW),
        "tools": (TOOL,),
        "sampling": Sampling(seed=3),
        "num_new_messages": 1,
        "images": IMAGES,
        "slack_s": 0.5,
        "trace_headers": {"traceparent": "00-1-2-01"},
    }
    return Turn("episode", index, **{**values, **fields})


def sent(frame_of: tuple[dict, bytes]) -> Frame:
    (frame,) = FrameDecoder().feed(encode({"op": "turn", "turn": 1, **frame_of[0]}, frame_of[1]))
    return frame


def test_new_messages_and_new_pictures_arrive_as_they_were() -> None:
    hosted = decode_turn(sent(encode_turn(turn(), known_images=())))

    assert hosted.messages == (NEW,)
    assert hosted.images == IMAGES
    assert hosted.sampling == Sampling(seed=3)
    assert (hosted.episode_id, hosted.turn_index, hosted.slack_s) == ("episode", 1, 0.5)
    assert hosted.trace_headers == {"traceparent": "00-1-2-01"}


def test_history_and_known_pictures_do_not_travel_again() -> None:
    whole = len(encode_turn(turn(), known_images=())[1])
    header, body = encode_turn(turn(), known_images={"a"})

    assert whole < 1000
    assert len(body) == whole - 18
    assert decode_turn(sent((header, body))).images == {"b": IMAGES["b"]}


def test_tools_travel_with_the_first_turn_only() -> None:
    assert decode_turn(sent(encode_turn(turn(0), ()))).tools == (TOOL,)
    assert decode_turn(sent(encode_turn(turn(1), ()))).tools == ()
