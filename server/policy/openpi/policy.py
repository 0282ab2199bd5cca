"""The remote policy behind this server's Policy interface."""

from __future__ import annotations

import logging
import queue
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from robot_sdk.clock import Clock
from robot_sdk.errors import BadModelOutputError, WorkerUnavailableError
from robot_sdk.spec import PolicySpec
from server.policy.interface import PolicyInput, PolicyOutcome
from server.policy.openpi.connection import Connection
from server.policy.openpi.options import OpenpiOptions
from server.policy.openpi.translation import observation_of, output_of

_log = logging.getLogger(__name__)


class OpenpiPolicy:
    """Asks for one observation at a time, or over several connections for several at once.

    A noise seed is not passed on: openpi's protocol has none.

    Args:
        options: Settings, checked.
        api_key: Empty for none.
    """

    def __init__(self, options: OpenpiOptions, api_key: str, clock: Clock) -> None:
        self.spec: PolicySpec = options.spec()
        self._options = options
        self._idle: queue.SimpleQueue[Connection] = queue.SimpleQueue()
        self._threads = ThreadPoolExecutor(options.connections, "openpi")
        first = Connection(options, api_key, clock)
        try:
            first.open()
        except WorkerUnavailableError as error:
            # The server stays up without it: it may come later, and others may be fine.
            _log.warning("%s; trying again with every observation", error)
        self._idle.put(first)
        for _ in range(options.connections - 1):
            self._idle.put(Connection(options, api_key, clock))

    def infer(self, batch: Sequence[PolicyInput]) -> Sequence[PolicyOutcome]:
        """One outcome per observation.

        A failure of the model is the outcome of its own observation. When the server fell silent or
        away, the observations of the batch that were not sent yet fail with it: each would wait for
        as long again.
        """
        gone: list[WorkerUnavailableError] = []
        return list(self._threads.map(lambda item: self._ask(item, gone), batch))

    def close(self) -> None:
        """Hang up; for a policy that is used outside a worker, which ends with its process."""
        self._threads.shutdown()
        while not self._idle.empty():
            self._idle.get().close()

    def _ask(self, item: PolicyInput, gone: list[WorkerUnavailableError]) -> PolicyOutcome:
        connection = self._idle.get()
        try:
            if gone:
                return gone[0]
            return output_of(connection.ask(observation_of(item, self._options)), self._options)
        except WorkerUnavailableError as error:
            gone.append(error)
            return error
        except BadModelOutputError as error:
            return error
        finally:
            self._idle.put(connection)
