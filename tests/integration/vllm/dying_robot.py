"""A robot that asks for a long answer and is killed in it: `dying_robot ADDRESS`.

Prints one line of JSON at the first word of the answer, with the reference of its episode.
"""

from __future__ import annotations

import json
import sys

from robot_sdk.api.v1 import brain_pb2
from tests.integration.server.harness import Client, Robot, user


def main() -> None:
    client = Client(sys.argv[1])
    robot = Robot(client, policies=[])
    robot.admitted()
    robot.keep_alive(0.2)
    sampling = brain_pb2.Sampling(max_output_tokens=64)
    robot.decide(0, [user("hello there")], sampling=sampling).until("done")
    robot.decide(1, [user("tell me a story")], timeout_s=None).until("text")
    reference = robot.reference
    print(
        json.dumps(
            {
                "episode_id": reference.episode_id,
                "episode_secret": reference.episode_secret,
                "epoch": reference.epoch,
                "server_boot_id": reference.server_boot_id,
            }
        ),
        flush=True,
    )
    robot.inbox.done.wait()


if __name__ == "__main__":
    main()
