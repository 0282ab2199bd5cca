"""Server-sent events: bytes, cut anywhere, into the data of events."""

from __future__ import annotations

from robot_sdk.errors import BadModelOutputError

#: An event of a chat stream is some hundred bytes. An endpoint that never ends a line must not fill
#: the memory.
MAX_EVENT_BYTES = 8 * 1024 * 1024


class SseDecoder:
    """Feeds on bytes. Comments and fields other than `data` are passed over.

    Follows the event stream format of the HTML standard (section 9.2.6): lines end with CR LF, LF
    or CR, an empty line ends an event, several data lines are joined by LF.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._data: list[bytes] = []
        self._num_bytes = 0
        self._after_cr = False

    def feed(self, received: bytes) -> list[bytes]:
        """The data of the events that are now complete.

        Raises:
            BadModelOutputError: An event is longer than MAX_EVENT_BYTES.
        """
        if self._after_cr and received[:1] == b"\n":
            self._after_cr = False
            received = received[1:]
        if received:
            self._after_cr = received.endswith(b"\r")
        self._buffer += received.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, rest = self._buffer.split(b"\n")
        self._buffer = rest
        events = []
        for line in lines:
            event = self._line(bytes(line))
            if event is not None:
                events.append(event)
        if len(self._buffer) + self._num_bytes > MAX_EVENT_BYTES:
            raise BadModelOutputError(
                "the model endpoint sent an event that is too long",
                value=f"{len(self._buffer) + self._num_bytes} bytes",
                allowed=(f"at most {MAX_EVENT_BYTES} bytes",),
            )
        return events

    def _line(self, line: bytes) -> bytes | None:
        if not line:
            event = b"\n".join(self._data) if self._data else None
            self._data, self._num_bytes = [], 0
            return event
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
            # With its line break: lines without a value take memory, too.
            self._num_bytes += len(value) + 1
        return None
