"""Which process an object belongs to: network threads do not come along in a fork."""

from __future__ import annotations

import os

from robot_sdk.errors import ForkedProcessError


def check_process(pid: int) -> None:
    """Refuse to go on in another process than `pid`.

    Takes no lock: one that a thread of the parent held at the fork would never be given back.

    Raises:
        ForkedProcessError: This is a fork of the process that connected.
    """
    if os.getpid() != pid:
        raise ForkedProcessError(
            f"this client was connected in process {pid} and is used in its fork {os.getpid()}",
            hint='connect anew in the child, started with multiprocessing\'s "spawn" method',
        )
