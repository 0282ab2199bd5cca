"""Two minimal front ends of PolicyService.Chunks over one worker process, and a minimal client.

They hold nothing but what decides the question "grpc.aio or threads": the gRPC server, the bytes
of an observation to a worker over a socket pair, and its answer back to the right stream. There
are no leases, no checks and no batching, so their times are a floor, not the product's.

`python _support_front_end.py aio|threads` serves and prints its port.
"""

from __future__ import annotations

import asyncio
import queue
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import numpy as np
from _support_load import ACTION_DIM, HORIZON_STEPS, PROMPT, Sample
from numpy.typing import NDArray

from robot_sdk.api.v1 import common_pb2, policy_pb2

_METHOD = "/robot_sdk.api.v1.PolicyService/Chunks"
_HEADER = struct.Struct("<II")
_OPTIONS = [
    ("grpc.max_receive_message_length", 64 << 20),
    ("grpc.max_send_message_length", 64 << 20),
    ("grpc.use_local_subchannel_pool", 1),
]


def work(connection: socket.socket) -> None:
    """The worker: answers each observation at once with actions that carry its mark."""
    stream = connection.makefile("rb", buffering=1 << 20)
    while len(header := stream.read(_HEADER.size)) == _HEADER.size:
        call, length = _HEADER.unpack(header)
        request = policy_pb2.ChunksRequest.FromString(stream.read(length))
        state = np.frombuffer(request.observation.tensors["state"].data, dtype=np.float32)
        actions = np.zeros((HORIZON_STEPS, ACTION_DIM), dtype=np.float32)
        actions[:, 0] = state[0]
        chunk = policy_pb2.ActionChunk(sequence=request.observation.sequence)
        chunk.actions.shape.extend(actions.shape)
        chunk.actions.data = actions.tobytes()
        answer = policy_pb2.ChunksResponse(chunk=chunk).SerializeToString()
        connection.sendall(_HEADER.pack(call, len(answer)) + answer)


def start_worker() -> socket.socket:
    """Start the worker process; it leaves when this process does."""
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
    with theirs:
        subprocess.Popen(
            [sys.executable, __file__, "worker", str(theirs.fileno())], pass_fds=[theirs.fileno()]
        )
    return ours


def _handlers(behaviour: Any) -> grpc.GenericRpcHandler:
    # Bytes in, bytes out: the front end forwards an observation without reading it.
    return grpc.method_handlers_generic_handler(
        "robot_sdk.api.v1.PolicyService",
        {"Chunks": grpc.stream_stream_rpc_method_handler(behaviour)},
    )


async def serve_aio() -> None:
    """Front end on one asyncio loop."""
    reader, writer = await asyncio.open_connection(sock=start_worker(), limit=1 << 20)
    answers: dict[int, asyncio.Future[bytes]] = {}

    async def read_answers() -> None:
        while True:
            call, length = _HEADER.unpack(await reader.readexactly(_HEADER.size))
            answers.pop(call).set_result(await reader.readexactly(length))

    async def chunks(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        async for request in requests:
            call = id(context) & 0xFFFFFFFF
            answers[call] = asyncio.get_running_loop().create_future()
            writer.writelines((_HEADER.pack(call, len(request)), request))
            yield await answers[call]

    task = asyncio.create_task(read_answers())
    server = grpc.aio.server(options=_OPTIONS)
    server.add_generic_rpc_handlers((_handlers(chunks),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(f"listening on 127.0.0.1:{port}", flush=True)
    await task


def serve_threads() -> None:
    """Front end with a thread for each stream, a lock around the worker's pipe, and one reader."""
    connection = start_worker()
    write_lock = threading.Lock()
    answers: dict[int, queue.SimpleQueue[bytes]] = {}

    def chunks(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        call = id(context) & 0xFFFFFFFF
        mine: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        answers[call] = mine
        for request in requests:
            with write_lock:
                connection.sendall(_HEADER.pack(call, len(request)))
                connection.sendall(request)
            yield mine.get()

    server = grpc.server(ThreadPoolExecutor(max_workers=128), options=_OPTIONS)
    server.add_generic_rpc_handlers((_handlers(chunks),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(f"listening on 127.0.0.1:{port}", flush=True)
    stream = connection.makefile("rb", buffering=1 << 20)
    while len(header := stream.read(_HEADER.size)) == _HEADER.size:
        call, length = _HEADER.unpack(header)
        answers[call].put(stream.read(length))


class FrontEndSession:
    """One robot over a bare bidi stream."""

    def __init__(self, address: str) -> None:
        self._channel = grpc.insecure_channel(address, options=_OPTIONS)
        self._outbox: queue.SimpleQueue[policy_pb2.ChunksRequest | None] = queue.SimpleQueue()
        call = self._channel.stream_stream(
            _METHOD,
            request_serializer=policy_pb2.ChunksRequest.SerializeToString,
            response_deserializer=policy_pb2.ChunksResponse.FromString,
        )
        self._call = call(iter(self._outbox.get, None))

    def request(self, sample: Sample) -> NDArray[np.floating]:
        message = policy_pb2.ChunksRequest()
        observation = message.observation
        observation.tensors["state"].data = sample.state.tobytes()
        for name, pixels in (("base", sample.base_rgb), ("wrist", sample.wrist_rgb)):
            image = observation.images[name]
            image.encoding = common_pb2.IMAGE_ENCODING_RGB8
            image.height, image.width = pixels.shape[:2]
            image.data = pixels.tobytes()
        observation.trace.traceparent = PROMPT
        self._outbox.put(message)
        actions = next(self._call).chunk.actions
        return np.frombuffer(actions.data, dtype=np.float32).reshape(tuple(actions.shape))

    def close(self) -> None:
        self._outbox.put(None)
        self._call.cancel()
        self._channel.close()


if __name__ == "__main__":
    if sys.argv[1] == "worker":
        work(socket.socket(fileno=int(sys.argv[2])))
    elif sys.argv[1] == "aio":
        asyncio.run(serve_aio())
    else:
        serve_threads()
