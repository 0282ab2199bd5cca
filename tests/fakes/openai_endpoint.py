"""An OpenAI-compatible endpoint on loopback that answers as it is told, well or badly."""

from __future__ import annotations

import json
import select
import ssl
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from robot_sdk.clock import SYSTEM_CLOCK

MODEL = "tiny"
EVENT_STREAM = "text/event-stream"

Reply = Callable[["_Handler"], None]


@dataclass(frozen=True)
class Asked:
    """A chat request as it came."""

    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> dict[str, Any]:
        return json.loads(self.raw)

    @property
    def messages(self) -> list[dict[str, Any]]:
        return self.body["messages"]


@dataclass
class FakeEndpoint:
    """Answers chat requests with `replies` in their order, and then with `default`.

    Attributes:
        models: What GET /models answers: a model list, or a status code.
        asked: Chat requests so far.
        num_broken: Answers whose reader went away while they were being written.
        tls: Files of a certificate and its key; None speaks plain HTTP.
    """

    models: list[dict[str, Any]] | int = field(default_factory=lambda: [{"id": MODEL}])
    replies: deque[Reply] = field(default_factory=deque)
    asked: list[Asked] = field(default_factory=list)
    model_headers: list[dict[str, str]] = field(default_factory=list)
    num_broken: int = 0
    port: int = 0
    tls: tuple[str, str] | None = None

    def __post_init__(self) -> None:
        self.default = answer("ok")
        self._server: _Server | None = None

    @property
    def base_url(self) -> str:
        return f"http{'s' if self.tls else ''}://127.0.0.1:{self.port}/v1"

    def start(self) -> FakeEndpoint:
        """Listen on `port`, or on a free one that becomes `port`."""
        self._server = _Server(("127.0.0.1", self.port), _Handler)
        self._server.endpoint = self
        if self.tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*self.tls)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def stop(self) -> None:
        assert self._server is not None
        self._server.is_stopping = True
        self._server.shutdown()
        self._server.server_close()

    def will(self, *replies: Reply) -> None:
        """Forget what was asked, and answer with these next."""
        self.asked.clear()
        self.replies.clear()
        self.replies.extend(replies)
        self.num_broken = 0


def chunk(
    delta: dict[str, Any] | None = None, finish: str | None = None, **fields: Any
) -> dict[str, Any]:
    """One chunk of a streamed answer."""
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish}
    return {"id": "x", "object": "chat.completion.chunk", "choices": [choice], **fields}


def call(index: int | None, call_id: str | None, name: str, arguments: Any) -> dict[str, Any]:
    """A tool call of a delta."""
    made: dict[str, Any] = {"type": "function", "function": {"name": name, "arguments": arguments}}
    if index is not None:
        made["index"] = index
    if call_id is not None:
        made["id"] = call_id
    return made


def usage(prompt: int, output: int, cached: int | None = None) -> dict[str, Any]:
    """Token counts as OpenAI writes them."""
    counts: dict[str, Any] = {"prompt_tokens": prompt, "completion_tokens": output}
    if cached is not None:
        counts["prompt_tokens_details"] = {"cached_tokens": cached}
    return counts


def answer(
    text: str = "",
    calls: Sequence[dict[str, Any]] = (),
    counts: dict[str, Any] | None = None,
    finish: str | None = None,
    **delta: Any,
) -> Reply:
    """A whole answer: other fields of the delta first, the text in two parts, calls, counts."""
    chunks = [chunk({"role": "assistant", "content": None})]
    if delta:
        chunks.append(chunk(delta))
    chunks += [
        chunk({"content": part}) for part in (text[: len(text) // 2], text[len(text) // 2 :])
    ]
    chunks += [chunk({"tool_calls": [made]}) for made in calls]
    chunks.append(chunk({}, finish or ("tool_calls" if calls else "stop")))
    if counts is not None:
        chunks.append({"id": "x", "choices": [], "usage": counts})
    return stream(*chunks, b"[DONE]")


def stream(*events: dict[str, Any] | bytes, pause_s: float = 0.0) -> Reply:
    """These events, then the end of the answer."""

    def reply(handler: _Handler) -> None:
        handler.start()
        for event in events:
            data = event if isinstance(event, bytes) else json.dumps(event).encode()
            handler.write(b"data: " + data + b"\n\n")
            _sleep(pause_s)

    return reply


def endless(event: dict[str, Any], pause_s: float = 0.02) -> Reply:
    """The same event over and over, until the reader goes."""

    def reply(handler: _Handler) -> None:
        handler.start()
        while not handler.is_alone():
            handler.write(b"data: " + json.dumps(event).encode() + b"\n\n")
            _sleep(pause_s)

    return reply


def silent(*events: dict[str, Any], headers: bool = True, comments: bool = False) -> Reply:
    """Some events, and then nothing, or comments that say nothing, until the reader goes."""

    def reply(handler: _Handler) -> None:
        if headers:
            handler.start()
        for event in events:
            handler.write(b"data: " + json.dumps(event).encode() + b"\n\n")
        while not handler.is_alone():
            if comments:
                handler.write(b": processing\n\n")
            _sleep(0.02)

    return reply


def status(code: int, message: Any = "no", **headers: str) -> Reply:
    """An error. A text becomes OpenAI's error object; anything else is sent as it is."""
    body = {"error": {"message": message}} if isinstance(message, str) else message

    def reply(handler: _Handler) -> None:
        data = json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        handler.start(code, "application/json", {"Content-Length": str(len(data)), **named})
        handler.write(data)

    return reply


def raw(data: bytes, content_type: str = EVENT_STREAM) -> Reply:
    """These bytes as they are."""

    def reply(handler: _Handler) -> None:
        handler.start(200, content_type)
        handler.write(data)

    return reply


def hang_up() -> Reply:
    """No answer at all: the connection is closed."""
    return lambda handler: None


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    endpoint: FakeEndpoint
    is_stopping = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A reader that goes away is part of these tests."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        endpoint = self.server.endpoint
        endpoint.model_headers.append(dict(self.headers))
        if self.path != "/v1/models":
            self._unknown_address()
            return
        if isinstance(endpoint.models, int):
            status(endpoint.models)(self)
            return
        data = json.dumps({"object": "list", "data": endpoint.models}).encode()
        self.start(200, "application/json")
        self.write(data)

    def do_POST(self) -> None:
        endpoint = self.server.endpoint
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path != "/v1/chat/completions":
            self._unknown_address()
            return
        if body == b"{}":
            status(400, "no messages")(self)
            return
        endpoint.asked.append(Asked(dict(self.headers), body))
        reply = endpoint.replies.popleft() if endpoint.replies else endpoint.default
        try:
            reply(self)
        except (BrokenPipeError, ConnectionResetError):
            endpoint.num_broken += 1

    def _unknown_address(self) -> None:
        self.start(404, "text/html")
        self.write(b"<html><head><title>x</title></head>\n<body><h1>Not Found</h1></body></html>")

    def start(
        self,
        code: int = 200,
        content_type: str = EVENT_STREAM,
        headers: dict[str, str] | None = None,
    ) -> None:
        self.send_response(code)
        self.send_header("Content-Type", content_type)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()

    def write(self, data: bytes) -> None:
        self.wfile.write(data)
        self.wfile.flush()

    def is_alone(self) -> bool:
        """Whether the reader has gone; counted."""
        if self.server.is_stopping:
            return True
        readable, _, _ = select.select([self.connection], [], [], 0)
        if readable and not self.connection.recv(1):
            self.server.endpoint.num_broken += 1
            return True
        return False

    def log_message(self, *args: Any) -> None:
        """Not on the terminal."""


def _sleep(duration_s: float) -> None:
    if duration_s:
        SYSTEM_CLOCK.sleep_until(SYSTEM_CLOCK.now_s() + duration_s)
