"""When a robot's first observation has to be taken to arrive when the server would like it."""

from __future__ import annotations

from robot_sdk.timesync import ClockOffset

#: A message that seems to have been longer on its way was stamped by a clock that the offset does
#: not belong to.
_LONGEST_WAY_S = 1.0


def first_tick_s(
    wish_s: float,
    received_s: float,
    server_sent_s: float | None,
    offset: ClockOffset | None,
) -> float:
    """Moment on the robot's clock at which to take the observation.

    The server's wish counts from the sending of its message to the arrival of the observation, and
    both are on their way for a time. What the observation will take is put at the smallest seen,
    half of the best round trip. What the message took follows from the measured clock offset: with
    a network that jitters, robots would otherwise spread by how long their messages happened to
    take, and robots that are to arrive together must not spread.

    Args:
        wish_s: Seconds from sending to arrival.
        received_s: When the message came, robot's clock.
        server_sent_s: When it was sent, server's clock. None: the server does not say.
        offset: Between the two clocks; its bound is half of the best round trip. None: unknown,
            and nothing is made up for.
    """
    if offset is None:
        return received_s + wish_s
    way_s = offset.bound_s
    if server_sent_s is not None:
        measured_s = received_s - offset.to_robot_s(server_sent_s)
        if -offset.bound_s <= measured_s <= _LONGEST_WAY_S:
            way_s = max(0.0, measured_s)
    return received_s - way_s + wish_s - offset.bound_s
