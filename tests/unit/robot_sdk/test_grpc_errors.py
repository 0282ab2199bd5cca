"""What a failed call means."""

from __future__ import annotations

import grpc
import pytest

from robot_sdk.errors import (
    ERROR_DETAIL_METADATA_KEY,
    BadModelOutputError,
    EpisodeUnknownError,
    InternalServerError,
    OverloadedError,
    ServerUnavailableError,
    TooLargeError,
    UnauthenticatedError,
    to_detail,
)
from robot_sdk.grpc_errors import translate


class Failure(grpc.RpcError):
    def __init__(self, code, details="", metadata=()):
        self._code, self._details, self._metadata = code, details, metadata

    def code(self):
        return self._code

    def details(self):
        return self._details

    def trailing_metadata(self):
        return self._metadata


@pytest.mark.parametrize(
    ("code", "details", "expected", "words"),
    [
        ("UNAVAILABLE", "Connection refused", ServerUnavailableError, "is the server running"),
        ("UNAVAILABLE", "failed to connect: Socket closed", ServerUnavailableError, "TLS"),
        ("UNAVAILABLE", "Stream removed (Socket closed)", ServerUnavailableError, "broke"),
        ("UNAVAILABLE", "SSL_ERROR_SSL: WRONG_VERSION_NUMBER", ServerUnavailableError, "one side"),
        (
            "UNAVAILABLE",
            "CERTIFICATE_VERIFY_FAILED: certificate has expired",
            UnauthenticatedError,
            "this machine's date",
        ),
        (
            "UNAVAILABLE",
            "Hostname Verification Check failed",
            UnauthenticatedError,
            "another name",
        ),
        ("UNKNOWN", "Stream removed", ServerUnavailableError, "broke"),
        ("INTERNAL", "RST_STREAM with error code 2", ServerUnavailableError, "broke"),
        ("INTERNAL", "oops", InternalServerError, "oops"),
        ("RESOURCE_EXHAUSTED", "Received message larger than max (9 vs. 4)", TooLargeError, "JPEG"),
        ("RESOURCE_EXHAUSTED", "queue is full", OverloadedError, "full"),
        ("NOT_FOUND", "who?", EpisodeUnknownError, "who"),
    ],
)
def test_words_and_code_of_grpc_become_one_error_with_a_hint(code, details, expected, words):
    error = translate(Failure(grpc.StatusCode[code], details), "host:1")
    assert type(error) is expected
    assert words in str(error)


def test_a_detail_of_the_server_counts_before_the_code():
    detail = to_detail(BadModelOutputError("nan", field="actions")).SerializeToString()
    failure = Failure(grpc.StatusCode.INTERNAL, "x", ((ERROR_DETAIL_METADATA_KEY, detail),))
    error = translate(failure, "host:1")
    assert type(error) is BadModelOutputError
    assert error.field == "actions"


def test_a_detail_without_a_reason_does_not_hide_the_code():
    detail = to_detail(ServerUnavailableError("gone")).SerializeToString()
    failure = Failure(grpc.StatusCode.UNAVAILABLE, "x", ((ERROR_DETAIL_METADATA_KEY, detail),))
    assert type(translate(failure, "host:1")) is ServerUnavailableError
