"""Errors name what was wrong, the value, what is allowed; they cross the wire unharmed."""

from __future__ import annotations

import grpc
import pytest

from robot_sdk import errors
from robot_sdk.api.v1 import common_pb2

WIRE_ERRORS = [
    cls
    for cls in vars(errors).values()
    if isinstance(cls, type)
    and issubclass(cls, errors.RobotSdkError)
    and errors._BY_REASON.get(cls.reason) is cls
]


class FakeRpcError(grpc.RpcError):
    def __init__(
        self,
        code: grpc.StatusCode,
        details: str = "",
        metadata: tuple[tuple[str, bytes | str], ...] = (),
    ) -> None:
        self._code, self._details, self._metadata = code, details, metadata

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return self._details

    def trailing_metadata(self) -> tuple[tuple[str, bytes | str], ...]:
        return self._metadata


def test_the_message_names_field_value_allowed_and_hint() -> None:
    error = errors.InvalidArgumentError(
        "unknown name",
        field="suite",
        value="libero_objekt",
        allowed=["libero_object", "libero_goal"],
        hint="did you mean libero_object?",
    )

    assert str(error) == (
        "suite: unknown name (got libero_objekt); allowed: libero_object, libero_goal; "
        "did you mean libero_object?"
    )


@pytest.mark.parametrize(
    ("message", "field", "value", "shown"),
    [
        ("out of range", "t.jsonl:10: control_hz", 0, True),
        ("not a list", "seeds", "s", True),
        ("above 10 s", "wait", 0, True),
        ("above 0.5 s", "wait", 0, True),
        ("above -1 s", "wait", 1, True),
        ("no task 7 there", "task", 7, False),
        ("no task 'lift' there", "task", "lift", False),
        ("it is 0.", "task", 0, False),
    ],
)
def test_a_value_is_shown_unless_the_message_says_it(
    message: str, field: str, value: object, shown: bool
) -> None:
    error = errors.InvalidArgumentError(message, field=field, value=value)
    assert (f"(got {value})" in str(error)) is shown


def test_a_huge_value_is_shortened_in_the_message() -> None:
    error = errors.InvalidArgumentError("bad", value="x" * 10_000)

    assert len(str(error)) < 300


@pytest.mark.parametrize("cls", WIRE_ERRORS, ids=lambda cls: cls.__name__)
def test_an_error_keeps_class_and_parts_across_the_wire(cls: type[errors.RobotSdkError]) -> None:
    sent = cls("what", field="f", value=3, allowed=[1, 2], retry_after_s=0.5)

    received = errors.from_detail(errors.to_detail(sent))

    assert type(received) is cls
    assert (received.field, received.value, received.allowed) == ("f", "3", ("1", "2"))
    assert received.retry_after_s == 0.5


def test_unknown_retry_time_stays_unknown_across_the_wire() -> None:
    received = errors.from_detail(errors.to_detail(errors.OverloadedError("full")))

    assert received.retry_after_s is None


def test_every_reason_of_the_contract_has_an_exception() -> None:
    reasons = set(common_pb2.ErrorReason.values()) - {common_pb2.ERROR_REASON_UNSPECIFIED}

    assert reasons == set(errors._BY_REASON)


def test_the_detail_in_trailing_metadata_wins_over_the_status_code() -> None:
    detail = errors.to_detail(errors.EpisodeLostError("restarted"))
    rpc_error = FakeRpcError(
        grpc.StatusCode.NOT_FOUND,
        metadata=((errors.ERROR_DETAIL_METADATA_KEY, detail.SerializeToString()),),
    )

    assert isinstance(errors.from_rpc_error(rpc_error), errors.EpisodeLostError)


def test_a_garbled_detail_falls_back_to_the_status_code() -> None:
    rpc_error = FakeRpcError(
        grpc.StatusCode.UNAVAILABLE,
        "gone",
        metadata=((errors.ERROR_DETAIL_METADATA_KEY, b"\xff\xff\xff"),),
    )

    error = errors.from_rpc_error(rpc_error)

    assert isinstance(error, errors.ServerUnavailableError)
    assert error.message == "gone"


def test_retryable_and_persistent_errors_never_mix() -> None:
    for cls in WIRE_ERRORS:
        assert issubclass(cls, errors.RetryableError) != issubclass(cls, errors.PersistentError)


def test_nearest_finds_the_misspelt_name() -> None:
    assert errors.nearest("libero_objekt", ["libero_goal", "libero_object"])[0] == "libero_object"


def test_an_error_with_halves_of_surrogate_pairs_can_be_sent() -> None:
    error = errors.InternalServerError(
        "a\ud800", field="b\udfff", value="\ud800", allowed=["\ud800"]
    )

    received = errors.from_detail(errors.to_detail(error))

    assert (received.message, received.field, received.value) == ("a?", "b?", "?")


@pytest.mark.parametrize("letter", ["x", "\u62ff", "\U0001f916"])
def test_a_long_error_is_cut_to_what_trailing_metadata_takes(letter: str) -> None:
    long = letter * 100_000
    error = errors.InvalidArgumentError(
        long, field=long, value=long, allowed=[long] * 1000, hint=long
    )

    detail = errors.to_detail(error)

    assert len(detail.SerializeToString()) < 4500
    assert detail.message.startswith(letter)
    assert detail.message.endswith("...")
    assert detail.allowed[-1] == "..."
