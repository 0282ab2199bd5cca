"""Process that runs one policy. Started by the front end, never by hand."""

from __future__ import annotations

import logging
import sys

from robot_sdk.clock import SYSTEM_CLOCK
from robot_sdk.spec_codec import encode_spec
from server.policy.host import PolicyHost, RawObservation
from server.worker.allocator import keep_freed_memory
from server.worker.arena import Arena
from server.worker.child import connect
from server.worker.factory import FactoryError, build
from server.worker.framing import Frame, FrameSocket
from server.worker.garbage import leave_out_what_was_loaded

_log = logging.getLogger(__name__)


def main(arguments: list[str]) -> int:
    keep_freed_memory()
    connection, (descriptor, size_bytes) = connect(arguments)
    arena = Arena(int(descriptor), int(size_bytes))
    load = connection.receive()
    if load is None:
        return 0
    try:
        policy = build(load.header["factory"], load.header["options"])
        host = PolicyHost(policy, load.header["name"], load.header["added_latency_s"], SYSTEM_CLOCK)
        spec = encode_spec(host.spec).SerializeToString()
    except FactoryError as error:
        _log.debug("load failed", exc_info=True)
        connection.send({"op": "failed", "error": str(error)})
        return 1
    except Exception as error:
        _log.exception("the policy has no usable spec")
        connection.send({"op": "failed", "error": f"{type(error).__name__}: {error}"})
        return 1
    leave_out_what_was_loaded()
    connection.send({"op": "ready"}, spec)
    while (frame := connection.receive()) is not None:
        _run(frame, host, arena, connection)
    return 0


def _run(frame: Frame, host: PolicyHost, arena: Arena, connection: FrameSocket) -> None:
    result = host.run(
        [
            RawObservation(
                arena.read(item["offset"], item["length"]),
                item["instruction"],
                item["noise_seed"],
            )
            for item in frame.header["items"]
        ]
    )
    answers = []
    for answer in result.answers:
        answers.append(
            {
                "failed": answer.failed,
                "length": len(answer.body),
                "preprocess_s": answer.preprocess_s,
                "vision_s": answer.vision_s,
                "prefill_s": answer.prefill_s,
                "denoise_s": answer.denoise_s,
            }
        )
    connection.send(
        {
            "op": "result",
            "infer_s": result.infer_s,
            "modelled_delay_s": result.modelled_delay_s,
            "answers": answers,
        },
        b"".join(answer.body for answer in result.answers),
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
