from __future__ import annotations

from sim.libero.grasp_log import Actor, Grasp, GraspLog

OPEN, CLOSE = -1.0, 1.0


def feed(log: GraspLog, *steps: tuple[Actor, float, str | None]) -> GraspLog:
    for step, (actor, gripper, held) in enumerate(steps, start=1):
        log.update(step, actor, gripper, held)
    return log


def test_the_one_who_closed_the_fingers_owns_the_grasp() -> None:
    log = feed(
        GraspLog(), ("policy", OPEN, None), ("policy", CLOSE, None), ("scripted", CLOSE, "milk_1")
    )

    assert log.last("milk_1") == Grasp("milk_1", step=3, actor="policy")


def test_a_slip_while_a_script_carries_does_not_change_the_owner() -> None:
    log = feed(
        GraspLog(),
        ("policy", CLOSE, "milk_1"),
        ("scripted", CLOSE, None),
        ("scripted", CLOSE, "milk_1"),
    )

    assert log.grasps == (Grasp("milk_1", step=1, actor="policy"),)


def test_opening_and_closing_again_is_a_new_grasp_of_its_own_owner() -> None:
    log = feed(
        GraspLog(),
        ("policy", CLOSE, "milk_1"),
        ("scripted", OPEN, None),
        ("scripted", CLOSE, "milk_1"),
    )

    assert log.last("milk_1") == Grasp("milk_1", step=3, actor="scripted")


def test_touching_with_open_fingers_is_no_grasp() -> None:
    log = feed(GraspLog(), ("policy", OPEN, "milk_1"))

    assert log.last("milk_1") is None
