"""openpi's wire by openpi's own code, run by an interpreter that has openpi-client.

`python openpi_client_server.py serve` prints a port and answers each observation with what
openpi-client's decoder made of it: row 0 of the actions is the state, row 1 holds sums of the
picture's corners. `python openpi_client_server.py fit HEIGHT WIDTH IN.npy OUT.npy` fits a picture
with openpi-client's own function.
"""

from __future__ import annotations

import asyncio
import sys

import numpy as np
from openpi_client import image_tools, msgpack_numpy


async def serve() -> None:
    """Serve until killed. The loop of openpi's own server, which is not on the registry."""
    import websockets.asyncio.server as ws_server
    from websockets.exceptions import ConnectionClosed

    async def handle(connection: ws_server.ServerConnection) -> None:
        packer = msgpack_numpy.Packer()
        await connection.send(packer.pack({"reset_pose": np.zeros(3)}))
        try:
            while True:
                observation = msgpack_numpy.unpackb(await connection.recv())
                image, state = observation["observation/image"], observation["observation/state"]
                assert observation["prompt"] == "pick up the milk: é 拿"
                assert image.dtype == np.uint8
                actions = np.zeros((10, 7))
                actions[0] = state[:7] / 100
                corners = image[[0, 0, -1, -1], [0, -1, 0, -1]].astype(int).sum(axis=1)
                actions[1, :4] = corners / 1000
                reply = {"actions": actions, "server_timing": {"infer_ms": np.float64(1.5)}}
                await connection.send(packer.pack(reply))
        except ConnectionClosed:
            return

    async with ws_server.serve(handle, "127.0.0.1", 0, compression=None, max_size=None) as server:
        print(next(iter(server.sockets)).getsockname()[1], flush=True)
        await server.serve_forever()


def fit(height_px: int, width_px: int, source: str, target: str) -> None:
    np.save(target, image_tools.resize_with_pad(np.load(source), height_px, width_px))


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        asyncio.run(serve())
    else:
        fit(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5])
