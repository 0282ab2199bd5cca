"""A worker that starts a process of its own and tells its id: what vLLM's do."""

from __future__ import annotations

import subprocess
import sys

from server.worker.child import connect_with_children, leave_with_children
from server.worker.framing import FrameSocket


def main() -> None:
    connection = FrameSocket(connect_with_children(sys.argv[1:]))
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    connection.send({"op": "ready", "child": child.pid})
    connection.receive()
    leave_with_children(0)


if __name__ == "__main__":
    main()
