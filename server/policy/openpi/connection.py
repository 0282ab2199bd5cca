"""One websocket to the remote policy: opened when it is needed, opened again when it broke."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect

from robot_sdk.backoff import Backoff
from robot_sdk.clock import Clock
from robot_sdk.errors import BadModelOutputError, RobotSdkError, WorkerUnavailableError
from server.policy.openpi import codec
from server.policy.openpi.options import OpenpiOptions
from server.policy.openpi.translation import remote_failure

_log = logging.getLogger(__name__)

_CLOSE_TIMEOUT_S = 1.0
#: Of what a remote server says, in the log (its traceback) and in an error that goes to robots.
_MAX_LOGGED_CHARACTERS, _MAX_TOLD_CHARACTERS = 20_000, 300


class Connection:
    """See the module. Used by one thread at a time.

    An observation is sent once. If the connection breaks while its answer is awaited, that
    observation fails, and the next one opens a new connection; a connection that the server closed
    while it was idle, as vLLM-Omni does after 30 s, is opened again before anything is sent.

    Args:
        options: Settings, checked.
        api_key: Empty for none.
    """

    def __init__(self, options: OpenpiOptions, api_key: str, clock: Clock) -> None:
        self._options = options
        self._api_key = api_key
        self._clock = clock
        self._socket: ClientConnection | None = None
        self._resources = ExitStack()
        self._backoff = Backoff()
        self._not_before_s: float | None = None
        self._metadata = ""

    def open(self) -> None:
        """Connect, if it is not connected.

        Raises:
            WorkerUnavailableError: Not possible now. After a failure it is not tried again for a
                growing while, so that a batch does not wait for a server that is not there.
        """
        if self._socket is not None:
            if self._is_open():
                return
            self.close()
        now_s = self._clock.now_s()
        if self._not_before_s is not None and now_s < self._not_before_s:
            raise self._unavailable("it could not be reached a moment ago")
        try:
            self._socket = self._connected()
        except (OSError, WebSocketException, codec.CodecError, EOFError) as error:
            # Counted from after the attempt, which may have taken its whole timeout.
            self._not_before_s = self._clock.now_s() + self._backoff.next_s()
            raise self._unavailable(str(error) or type(error).__name__) from error
        self._backoff.reset()
        self._not_before_s = None

    def ask(self, observation: Mapping[str, Any]) -> Any:
        """Send an observation and wait for its answer.

        Raises:
            WorkerUnavailableError: The server cannot be reached, broke off, or does not answer.
            BadModelOutputError: It failed on this observation, or what it sent cannot be read.
        """
        data = codec.encode(observation)
        self.open()
        if not self._is_quiet():
            # Nothing has been sent yet, so nothing is lost by it.
            self.close()
            self.open()
        socket = self._socket
        assert socket is not None
        try:
            socket.send(data)
            reply = socket.recv(self._options.timeout_s)
        except TimeoutError:
            # An answer that comes later would be taken for that of the next observation.
            self.close()
            raise WorkerUnavailableError(
                "the policy server did not answer in time",
                field="options.timeout_s",
                value=f"{self._options.timeout_s:g} s",
            ) from None
        except (WebSocketException, OSError, EOFError, UnicodeDecodeError) as error:
            self.close()
            raise self._unavailable(f"it broke off in mid-inference: {error}") from error
        if isinstance(reply, str):
            _log.error(
                "the policy server failed: %s", self._redacted(reply[:_MAX_LOGGED_CHARACTERS])
            )
            self.close()
            raise remote_failure(self._redacted(reply))
        try:
            return codec.decode(reply)
        except codec.CodecError as error:
            self.close()
            raise BadModelOutputError(
                "the policy server sent something that is no openpi message",
                value=str(error)[:_MAX_TOLD_CHARACTERS],
            ) from error

    def close(self) -> None:
        """Hang up. What was asked is not answered any more."""
        if self._socket is None:
            return
        self._socket = None
        try:
            self._resources.close()
        except (OSError, WebSocketException):
            _log.debug("closing a broken connection", exc_info=True)

    def _is_quiet(self) -> bool:
        """Nothing has come. What has would be taken for the answer of the next observation."""
        assert self._socket is not None
        try:
            self._socket.recv(0)
        except TimeoutError:
            return True
        except (WebSocketException, OSError, EOFError, UnicodeDecodeError):
            return False
        _log.warning("the policy server sent a message that answers nothing; connecting anew")
        return False

    def _connected(self) -> ClientConnection:
        options = self._options
        headers = {}
        if self._api_key:
            headers["Authorization"] = f"{options.api_key_scheme} {self._api_key}"
        context = None
        if options.url.startswith("wss"):
            context = ssl.create_default_context(cafile=options.ca_file or None)
        opening = connect(
            options.url,
            additional_headers=headers,
            ssl=context,
            proxy=None,
            compression=None,
            open_timeout=options.connect_timeout_s,
            close_timeout=_CLOSE_TIMEOUT_S,
            # openpi's server computes on its event loop and answers no ping meanwhile.
            ping_interval=None,
            max_size=options.max_message_bytes,
        )
        with ExitStack() as stack:
            socket = stack.enter_context(opening)
            first = socket.recv(options.connect_timeout_s)
            metadata = first if isinstance(first, str) else codec.decode(first)
            self._check_metadata(metadata)
            self._resources = stack.pop_all()
        text = repr(metadata)
        if text != self._metadata:
            self._metadata = text
            _log.info("connected to the policy server; it says of itself: %.500s", text)
        return socket

    def _check_metadata(self, metadata: Any) -> None:
        if not isinstance(metadata, Mapping):
            raise codec.CodecError(f"it is no policy server: it said {str(metadata)[:200]!r} first")
        if metadata.get("type") == "error":
            raise codec.CodecError(str(metadata.get("message", ""))[:200])
        if metadata.get("needs_session_id") and not self._options.session_id:
            raise codec.CodecError(
                "it keeps a state per session; set option session_id, and let one robot use it"
            )

    def _is_open(self) -> bool:
        assert self._socket is not None
        return self._socket.protocol.state.name == "OPEN"

    def _redacted(self, text: str) -> str:
        return text.replace(self._api_key, "[key]") if self._api_key else text

    def _unavailable(self, words: str) -> RobotSdkError:
        left_s = 0.0
        if self._not_before_s is not None:
            left_s = max(0.0, self._not_before_s - self._clock.now_s())
        return WorkerUnavailableError(
            f"the policy server cannot be used: {self._redacted(words)}",
            retry_after_s=left_s or None,
        )
