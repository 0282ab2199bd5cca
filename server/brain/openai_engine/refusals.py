"""What a status code or an error object of an endpoint means for a turn: pure.

Only a request that the endpoint certainly did not take may be repeated by this server: 429, and
503 unless a proxy says with it that it lost the model's server. A 500, or a 502 of a proxy, may
follow on hours of work.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from html import unescape
from typing import Any

from robot_sdk.errors import (
    BadModelOutputError,
    ContextLimitError,
    InternalServerError,
    InvalidArgumentError,
    OverloadedError,
    RobotSdkError,
    WorkerUnavailableError,
)
from robot_sdk.plain_text import one_line

_MAX_WORDS = 300
#: How endpoints word it, in lower case. OpenAI sends a code, too.
_CONTEXT_CODE = "context_length_exceeded"
_CONTEXT_WORDS = (
    "maximum context length",
    "maximum model length",
    "max_model_len",
    "exceeds the context",
    "exceed_context_size",
    "context window",
    "context length",
    "prompt is too long",
    "input is too long",
    "too many tokens",
    "image(s) may be provided",
)
#: Envoy's, when its upstream went away after it was given the request, or before.
_LOST_UPSTREAM_WORDS = "reset before headers"
#: Tags of a web page, and what is no text of it.
_MARKUP = re.compile(
    r"<!--.*?-->|<(style|script|head)\b.*?</\1\s*>|</?[a-z!][^>]*>", re.IGNORECASE | re.DOTALL
)
_USAGE_WORDS = ("stream_options", "include_usage")


@dataclass(frozen=True)
class Refusal:
    """An answer that is not 200.

    Attributes:
        may_repeat: The endpoint did not take the request.
        is_context_limit: The conversation, or it and the answer asked for, is too long.
        names_stream_options: The endpoint knows no stream_options.
    """

    error: RobotSdkError
    may_repeat: bool = False
    is_context_limit: bool = False
    names_stream_options: bool = False


def read_refusal(status: int, headers: Mapping[str, str], body: str) -> Refusal:
    """What an endpoint means by an answer that is not 200.

    Args:
        status: HTTP status code.
        headers: Headers of the answer, their names in any case.
        body: What it says, without secrets.
    """
    code, words = _error_object(body)
    retry_after_s = read_retry_after(headers)
    value = f"{status} {words}".strip()
    if status in (400, 413, 422) and _is_context_limit(status, code, words):
        return Refusal(context_limit(value), is_context_limit=True)
    if status == 429:
        return Refusal(
            OverloadedError(
                "the model endpoint takes no more requests now",
                value=value,
                retry_after_s=retry_after_s,
            ),
            may_repeat=code != "insufficient_quota",
        )
    if status == 503:
        was_lost = _LOST_UPSTREAM_WORDS in body
        return Refusal(_unavailable(value, retry_after_s), may_repeat=not was_lost)
    if status >= 500:
        return Refusal(_unavailable(value, retry_after_s))
    if status in (401, 403):
        return Refusal(
            InternalServerError(
                "the model endpoint refused the key",
                value=value,
                hint="check openai.api_key_env or openai.api_key_file of the server",
            )
        )
    if status == 404:
        return Refusal(
            InternalServerError(
                "the model endpoint knows no such model or address",
                value=value,
                hint="check openai.model, and that openai.base_url ends with /v1",
            )
        )
    if status < 400:
        return Refusal(
            InternalServerError(
                "the model endpoint points elsewhere",
                value=value,
                hint="set openai.base_url to the final address",
            )
        )
    return Refusal(
        InvalidArgumentError("the model endpoint refused the request", value=value),
        names_stream_options=any(word in body.lower() for word in _USAGE_WORDS),
    )


def error_in_stream(chunk: Mapping[str, Any]) -> RobotSdkError | None:
    """The error that a chunk carries instead of an answer; None if it carries none."""
    error = chunk.get("error")
    if not error:
        return None
    code, words = _error_fields(error)
    if _is_context_limit(0, code, words):
        return context_limit(words)
    return BadModelOutputError("the model endpoint gave up the answer", value=words)


def context_limit(value: str) -> ContextLimitError:
    """The conversation does not fit the model any more."""
    return ContextLimitError(
        "the conversation is too long for the model", field="new_messages", value=value
    )


def read_retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds of a Retry-After header; a date is taken relative to the answer's own Date."""
    text = headers.get("Retry-After", "").strip()
    if text.isascii() and text.isdigit():
        return float(text) if len(text) < 9 else None
    try:
        until = parsedate_to_datetime(text)
        since = parsedate_to_datetime(headers.get("Date", ""))
        return max(0.0, (until - since).total_seconds())
    except (ValueError, TypeError):
        return None


def _unavailable(value: str, retry_after_s: float | None) -> WorkerUnavailableError:
    return WorkerUnavailableError(
        "the model endpoint failed", value=value, retry_after_s=retry_after_s
    )


def _is_context_limit(status: int, code: str, words: str) -> bool:
    lower = words.lower()
    return status == 413 or code == _CONTEXT_CODE or any(w in lower for w in _CONTEXT_WORDS)


def _error_object(body: str) -> tuple[str, str]:
    """Code and words of an error; endpoints wrap them in `error`, `detail`, or not at all."""
    try:
        whole = json.loads(body)
    except (ValueError, RecursionError):
        return "", plain_words(body)
    if isinstance(whole, Mapping):
        return _error_fields(whole.get("error") or whole.get("detail") or whole)
    return _error_fields(whole)


def plain_words(body: str) -> str:
    """What a body that is no JSON says, on one line: of a web page its text, not its tags."""
    words = one_line(_MARKUP.sub(" ", body), len(body) + 1)
    return " ".join(unescape(words).split())[:_MAX_WORDS]


def _error_fields(error: Any) -> tuple[str, str]:
    if not isinstance(error, Mapping):
        return "", str(error)[:_MAX_WORDS]
    code = error.get("code") or error.get("type") or ""
    words = error.get("message") or json.dumps(error)
    return str(code), str(words)[:_MAX_WORDS]
