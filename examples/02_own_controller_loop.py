"""Only the chunk stream and the buffer, inside a control loop of your own.

Shows the smallest way to embed the SDK: no agent, no tools, no brain. Your loop keeps its own clock
and safety; it sends an observation when one is due, merges what arrives, and takes one row per
tick or holds. Rows are addressed by control step, so a late chunk never replays the past.
"""

from __future__ import annotations

from toy import POLICY, ToyRobot, local_server

from robot_sdk.action_guard import ActionGuard
from robot_sdk.buffer import ChunkBuffer
from robot_sdk.chunks import ChunkArrival, PolicyObservation
from robot_sdk.client import connect
from robot_sdk.clock import SYSTEM_CLOCK
from robot_sdk.request_timing import RequestTiming

KEYS = ("observation/state", "observation/target")
NUM_TICKS = 60


def main() -> None:
    robot = ToyRobot()
    robot.target = robot.things["ball"][0].copy()
    with (
        local_server() as target,
        connect(target) as client,
        client.episode(
            task="reach", robot_id="toy-0", uses_brain=False, policies=(POLICY,)
        ) as episode,
        episode.open_policy(POLICY, "pick up the ball", KEYS) as stream,
    ):
        guard = ActionGuard.from_spec(stream.spec)
        buffer = ChunkBuffer("linear_blend")
        timing = RequestTiming(
            horizon=stream.spec.horizon,
            executed_steps=stream.spec.executed_steps,
            control_hz=robot.control_hz,
        )
        timing.start("realtime")
        sequence = num_held = num_chunks = 0
        start_s = SYSTEM_CLOCK.now_s()
        for step in range(NUM_TICKS):
            SYSTEM_CLOCK.sleep_until(start_s + step / robot.control_hz)  # never drifts
            now_s = SYSTEM_CLOCK.now_s()
            for answer in stream.poll():  # never blocks
                if isinstance(answer, ChunkArrival):
                    timing.answered(
                        answer.sequence, answer.received_s, answer.next_observation_in_s
                    )
                    buffer.merge(answer.control_step, guard.check_chunk(answer.actions), step)
                    num_chunks += 1
                else:
                    timing.failed(answer.sequence, now_s)
            if timing.is_due(step, now_s):
                observation = robot.observe(KEYS)
                stream.send(PolicyObservation(sequence, step, observation, buffer.remaining(step)))
                timing.sent(sequence, step, now_s)
                sequence += 1
            row = buffer.pop(step)
            if row is None:
                robot.hold()
                num_held += 1
            else:
                robot.act(row)
        episode.end("success" if robot.held else "failure")
    print(f"{NUM_TICKS} ticks, {num_chunks} chunks, {num_held} ticks held, holds {robot.held!r}")
    if not robot.held:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
