"""Process that hosts vLLM. Started by the front end, never by hand.

vLLM starts processes of its own below this one. They are in this one's process group: whoever ends
this process ends the group, so that none is left on a GPU.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from typing import Any, NoReturn

from robot_sdk.clock import pause
from robot_sdk.errors import RobotSdkError
from robot_sdk.telemetry import Telemetry
from server.brain.vllm_engine.settings import SettingError
from server.worker.child import connect_with_children, leave_with_children
from server.worker.stream import FrameStream

_log = logging.getLogger("server.brain.vllm_engine")

_LOAD_INTERVAL_S = 1.0
_WATCH_INTERVAL_S = 0.1
#: vLLM's processes have this long to leave; the front end gives this one a little more.
_ENGINE_STOP_S = 1.0
_TELEMETRY_STOP_S = 1.0
#: Some errors of vLLM hold whole configurations; the log has all of it.
_MAX_ERROR_CHARS = 600
#: Defaults for variables of vLLM. Spawned, because this process has threads.
_ENVIRONMENT = {"VLLM_NO_USAGE_STATS": "1", "VLLM_WORKER_MULTIPROC_METHOD": "spawn"}


def main(arguments: list[str]) -> NoReturn:
    connection = connect_with_children(arguments)
    # The server's standard output is not the place for vLLM's log.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    # The exit handlers of vLLM and of multiprocessing would wait for what has been ended already.
    leave_with_children(asyncio.run(_serve(connection)))


async def _serve(connection: socket.socket) -> int:
    stream = await FrameStream.open(connection)
    frame = await stream.receive()
    if frame is None:
        return 0
    load = frame.header
    try:
        from server.brain.vllm_engine.loading import load_host
    except ImportError as error:
        return await _failed(stream, _import_problem(error))
    try:
        engine, host, info, telemetry = await load_host(load, stream)
    except (SettingError, RobotSdkError) as error:
        return await _failed(stream, str(error))
    except Exception as error:
        _log.exception("vLLM cannot load %s", load["model_name"])
        return await _failed(stream, load_problem(load["engine_args"]["model"], error))
    stream.send({"op": "ready", "info": info})
    return await _work(stream, engine, host, telemetry)


async def _work(stream: FrameStream, engine: Any, host: Any, telemetry: Telemetry | None) -> int:
    async def receive() -> int:
        while (frame := await stream.receive()) is not None:
            host.handle(frame)
        return 0

    async def watch() -> int:
        while not engine.errored:
            await pause(_WATCH_INTERVAL_S)
        _log.error("vLLM's engine process has died")
        return 1

    async def tell_load() -> int:
        while True:
            host.send_load()
            await pause(_LOAD_INTERVAL_S)

    tasks = [asyncio.ensure_future(work()) for work in (receive, watch, tell_load)]
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    engine.shutdown(_ENGINE_STOP_S)
    if telemetry is not None:
        telemetry.shutdown(_TELEMETRY_STOP_S)
    return next(iter(done)).result()


async def _failed(stream: FrameStream, problem: str) -> int:
    stream.send({"op": "failed", "error": problem})
    await stream.close()
    return 1


def _import_problem(error: ImportError) -> str:
    if error.name == "vllm":
        return "brain.engine \"vllm\" needs vLLM; run: pip install -e '.[vllm]'"
    return f"vLLM cannot be imported: {one_line_of(error)}"


def load_problem(model: str, error: BaseException) -> str:
    """Why vLLM could not start. What its own process died of is in its log and not in the error."""
    if "Engine core initialization failed" in str(error):
        return (
            f"vLLM's engine process ended while it loaded {model!r}; the first error in the log "
            "above says why. If the KV cache is too small for max_model_len, set "
            "vllm.max_model_len lower; if too little memory is free, vllm.gpu_memory_utilization "
            "(0.1 for a small model on a CPU)"
        )
    return f"vLLM does not take vllm.model {model!r}: {one_line_of(error)}"


def one_line_of(error: BaseException) -> str:
    """What an error of vLLM says, without its line breaks."""
    line = " ".join(f"{type(error).__name__}: {error}".split())
    return line if len(line) <= _MAX_ERROR_CHARS else f"{line[:_MAX_ERROR_CHARS]}..."


if __name__ == "__main__":
    main(sys.argv[1:])
