"""openpi's side: its published client, and a server that speaks the same wire.

The client is `openpi_client.websocket_client_policy.WebsocketClientPolicy` as published. openpi's
server is not on the registry, so `serve` is written for this benchmark after the behaviour of
openpi's `WebsocketPolicyServer`: one asyncio loop; on connection the metadata is sent first; then
each binary message is one observation in msgpack with numpy extension, answered by one dictionary
of actions plus a `server_timing` dictionary; the policy is called on the loop itself; no
compression, no size limit. The code is ours, the wire and its encoder are openpi-client's.

`python _support_openpi.py DELAY_S` serves a policy that sleeps DELAY_S for each observation and
prints its port.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

import numpy as np
from _support_load import ACTION_DIM, HORIZON_STEPS, PROMPT, Sample
from numpy.typing import NDArray
from openpi_client import msgpack_numpy


class OpenpiSession:
    """One robot with openpi's own client."""

    def __init__(self, address: str) -> None:
        from openpi_client.websocket_client_policy import WebsocketClientPolicy

        host, port = address.rsplit(":", 1)
        self._policy = WebsocketClientPolicy(host, int(port))

    def request(self, sample: Sample) -> NDArray[np.floating]:
        reply = self._policy.infer(
            {
                "observation/image": sample.base_rgb,
                "observation/wrist_image": sample.wrist_rgb,
                "observation/state": sample.state,
                "prompt": PROMPT,
            }
        )
        actions: NDArray[np.floating] = reply["actions"]
        return actions

    def close(self) -> None:
        # The published client has no close of its own; dropping it closes the socket too late.
        self._policy._ws.close()


class DelayPolicy:
    """Answers after `delay_s` with actions that carry the observation's mark."""

    def __init__(self, delay_s: float) -> None:
        self._delay_s = delay_s

    def infer(self, observation: dict[str, Any]) -> dict[str, Any]:
        if self._delay_s > 0:
            time.sleep(self._delay_s)
        actions = np.zeros((HORIZON_STEPS, ACTION_DIM), dtype=np.float32)
        actions[:, 0] = observation["observation/state"][0]
        return {"actions": actions}


async def serve(policy: DelayPolicy) -> None:
    """Serve until cancelled; prints the port first."""
    import websockets.asyncio.server as ws_server
    from websockets.exceptions import ConnectionClosed

    async def handle(connection: ws_server.ServerConnection) -> None:
        packer = msgpack_numpy.Packer()
        await connection.send(packer.pack({}))
        previous_total_s: float | None = None
        while True:
            try:
                started_s = time.monotonic()
                message = await connection.recv()
                observation = msgpack_numpy.unpackb(message)
                infer_started_s = time.monotonic()
                reply = policy.infer(observation)
                timing_ms = {"infer_ms": (time.monotonic() - infer_started_s) * 1e3}
                if previous_total_s is not None:
                    timing_ms["prev_total_ms"] = previous_total_s * 1e3
                reply["server_timing"] = timing_ms
                await connection.send(packer.pack(reply))
                previous_total_s = time.monotonic() - started_s
            except ConnectionClosed:
                return

    async with ws_server.serve(handle, "127.0.0.1", 0, compression=None, max_size=None) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        print(f"listening on 127.0.0.1:{port}", flush=True)
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(DelayPolicy(float(sys.argv[1]))))
