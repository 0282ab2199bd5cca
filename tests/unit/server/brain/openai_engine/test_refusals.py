from __future__ import annotations

import json

import pytest

from robot_sdk.errors import (
    ContextLimitError,
    InternalServerError,
    InvalidArgumentError,
    OverloadedError,
    WorkerUnavailableError,
)
from server.brain.openai_engine.refusals import read_refusal, read_retry_after


def error(message, **fields):
    return json.dumps({"error": {"message": message, **fields}})


@pytest.mark.parametrize(
    ("status", "body", "kind", "may_repeat"),
    [
        (429, error("slow down"), OverloadedError, True),
        (429, error("pay", code="insufficient_quota"), OverloadedError, False),
        (503, "busy", WorkerUnavailableError, True),
        (
            503,
            "upstream connect error or disconnect/reset before headers. reset reason: connection "
            "termination",
            WorkerUnavailableError,
            False,
        ),
        (500, "", WorkerUnavailableError, False),
        (502, "<html>", WorkerUnavailableError, False),
        (504, "", WorkerUnavailableError, False),
        (401, error("bad key"), InternalServerError, False),
        (403, "", InternalServerError, False),
        (404, error("no model"), InternalServerError, False),
        (302, "", InternalServerError, False),
        (400, error("bad tools"), InvalidArgumentError, False),
        (422, json.dumps({"detail": [{"msg": "x"}]}), InvalidArgumentError, False),
        (400, error("x", code="context_length_exceeded"), ContextLimitError, False),
        (400, error("At most 8 image(s) may be provided in one prompt."), ContextLimitError, False),
        (400, json.dumps({"message": "the prompt is too long"}), ContextLimitError, False),
        (413, "", ContextLimitError, False),
        (400, "[" * 100_000, InvalidArgumentError, False),
    ],
)
def test_each_status_has_one_meaning(status, body, kind, may_repeat):
    refusal = read_refusal(status, {}, body)

    assert type(refusal.error) is kind
    assert refusal.may_repeat is may_repeat
    assert refusal.is_context_limit is (kind is ContextLimitError)
    assert str(status) in str(refusal.error)


def test_a_refused_option_is_recognised():
    assert read_refusal(400, {}, error("unknown stream_options")).names_stream_options
    assert not read_refusal(400, {}, error("unknown top_k")).names_stream_options


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"Retry-After": "7"}, 7.0),
        ({"Retry-After": " 0 "}, 0.0),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "-3"}, None),
        ({"Retry-After": "²"}, None),
        ({"Retry-After": "9" * 400}, None),
        (
            {
                "Retry-After": "Wed, 21 Oct 2015 07:28:30 GMT",
                "Date": "Wed, 21 Oct 2015 07:28:00 GMT",
            },
            30.0,
        ),
        (
            {
                "Retry-After": "Wed, 21 Oct 2015 07:27:00 GMT",
                "Date": "Wed, 21 Oct 2015 07:28:00 GMT",
            },
            0.0,
        ),
        ({"Retry-After": "Wed, 21 Oct 2015 07:28:30 GMT"}, None),
    ],
)
def test_retry_after_is_read_as_seconds_or_as_a_date_by_the_endpoint_s_own_clock(headers, expected):
    assert read_retry_after(headers) == expected


def test_a_web_page_is_told_by_its_text_on_one_line():
    page = """<!DOCTYPE HTML>
<html lang="en"><head><style>a { color: red }</style><title>Error</title></head>
<body><h1>Error&nbsp;response</h1>
<p>Message: File not found.</p></body></html>"""

    refusal = read_refusal(404, {}, page)

    assert "(got 404 Error response Message: File not found.)" in str(refusal.error)
