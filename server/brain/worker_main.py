"""Process that runs one planner, one thread per turn. Started by the front end, never by hand."""

from __future__ import annotations

import logging
import sys
import threading
from typing import Any

from robot_sdk.clock import SYSTEM_CLOCK
from robot_sdk.errors import InternalServerError, RobotSdkError, to_detail
from server.brain.checks import check_event
from server.brain.codec import decode_turn, event_to_json
from server.brain.interface import Event, Finished, Planner
from server.worker.child import connect
from server.worker.factory import FactoryError, build
from server.worker.framing import FrameSocket

_log = logging.getLogger(__name__)


class _Cancel:
    """A flag that can be waited for."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._set = False

    def set(self) -> None:
        with self._condition:
            self._set = True
            self._condition.notify_all()

    def is_set(self) -> bool:
        return self._set

    def wait(self, timeout_s: float) -> None:
        """Return when set, or after `timeout_s`."""
        deadline_s = SYSTEM_CLOCK.now_s() + timeout_s
        with self._condition:
            while not self._set and (left_s := deadline_s - SYSTEM_CLOCK.now_s()) > 0:
                SYSTEM_CLOCK.wait(self._condition, left_s)


class _Host:
    def __init__(self, planner: Planner, delay_s: float, connection: FrameSocket) -> None:
        self._planner = planner
        self._delay_s = delay_s
        self._connection = connection
        self._send_lock = threading.Lock()
        self._cancels: dict[int, _Cancel] = {}

    def start(self, number: int, turn: bytes) -> None:
        cancel = self._cancels[number] = _Cancel()
        threading.Thread(target=self._run, args=(number, turn, cancel), daemon=True).start()

    def cancel(self, number: int) -> None:
        cancel = self._cancels.get(number)
        if cancel is not None:
            cancel.set()

    def _run(self, number: int, turn: bytes, cancel: _Cancel) -> None:
        try:
            if self._delay_s:
                cancel.wait(self._delay_s)
            finished = False
            if not cancel.is_set():
                for event in self._planner.decide(decode_turn(turn), cancel.is_set):
                    if cancel.is_set():
                        break
                    finished = finished or isinstance(event, Finished)
                    self._emit(number, event)
            if not finished:
                self._emit(number, Finished("aborted" if cancel.is_set() else "stop"))
            self._send({"op": "end", "turn": number})
        except RobotSdkError as error:
            self._fail(number, error)
        except BaseException:
            # Also for sys.exit() in a planner: it would end this thread and leave its turn open.
            _log.exception("the planner failed")
            self._fail(number, InternalServerError("the brain failed; the server's log says why"))
        finally:
            self._cancels.pop(number, None)

    def _emit(self, number: int, event: Event) -> None:
        check_event(event)
        self._send({"op": "event", "turn": number, "event": event_to_json(event)})

    def _fail(self, number: int, error: RobotSdkError) -> None:
        self._send({"op": "end", "turn": number}, to_detail(error).SerializeToString())

    def _send(self, header: dict[str, Any], body: bytes = b"") -> None:
        with self._send_lock:
            self._connection.send(header, body)


def main(arguments: list[str]) -> int:
    connection, _ = connect(arguments)
    load = connection.receive()
    if load is None:
        return 0
    try:
        planner: Planner = build(load.header["factory"], load.header["options"])
        info = planner.info
    except FactoryError as error:
        connection.send({"op": "failed", "error": str(error)})
        return 1
    except Exception as error:
        _log.exception("the planner has no usable info")
        connection.send({"op": "failed", "error": f"{type(error).__name__}: {error}"})
        return 1
    host = _Host(planner, load.header["delay_s"], connection)
    connection.send({"op": "ready", "info": vars(info)})
    while (frame := connection.receive()) is not None:
        if frame.header["op"] == "turn":
            host.start(frame.header["turn"], frame.body)
        elif frame.header["op"] == "cancel":
            host.cancel(frame.header["turn"])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
