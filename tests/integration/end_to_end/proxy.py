"""A TCP proxy that a test can make drop what is under way."""

from __future__ import annotations

import contextlib
import socket
import threading


class Proxy:
    """Forwards to 127.0.0.1:`port`.

    Attributes:
        num_accepted: Connections so far.
    """

    def __init__(self, port: int) -> None:
        self._server = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._answers_flow = threading.Event()
        self._answers_flow.set()
        self._is_cut = threading.Event()
        self.num_accepted = 0
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def hold_answers(self) -> None:
        """From now on nothing comes back from the server."""
        self._answers_flow.clear()

    def drop(self) -> None:
        """Break every connection; what was held back is lost. New ones work."""
        pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for end in pair:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
        self._answers_flow.set()

    def cut(self) -> None:
        """Break every connection, and break new ones until `mend`."""
        self._is_cut.set()
        self.drop()

    def mend(self) -> None:
        self._is_cut.clear()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.drop()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self._is_cut.is_set():
                    client.close()
                    continue
                self.num_accepted += 1
                server = socket.create_connection(self._server)
                self._pairs.append((client, server))
                for source, sink, is_answer in ((client, server, False), (server, client, True)):
                    threading.Thread(
                        target=self._pump, args=(source, sink, is_answer), daemon=True
                    ).start()

    def _pump(self, source: socket.socket, sink: socket.socket, is_answer: bool) -> None:
        dropped = False
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if is_answer and not self._answers_flow.is_set():
                    dropped = True  # a gap in the stream: this connection is of no use any more
                if not dropped:
                    sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        source.close()
