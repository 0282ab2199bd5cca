"""Geometry, grasps and places, on a hand-made scene and on a real one."""

from __future__ import annotations

from typing import Literal

import mujoco
import numpy as np
import pytest

from robot_sdk.errors import InvalidArgumentError
from sim.libero.env import LiberoEnv
from sim.libero.geometry import SceneGeometry
from sim.libero.grasp import GraspSensor, hand_clearance, plan_grasp
from sim.libero.placing import PlaceTarget, place_target
from sim.libero.policy_inputs import TrackedGrasp

# A 4 x 10 x 2 cm bar turned by 30 degrees, a wide bowl-like box, and a region.
_SCENE = """
<mujoco>
  <worldbody>
    <body name="bar_main" pos="0.1 0.2 0.01" euler="0 0 30">
      <freejoint/>
      <geom name="bar_geom" type="box" size="0.02 0.05 0.01"/>
    </body>
    <body name="bowl_main" pos="0.5 0 0.03">
      <freejoint/>
      <geom name="bowl_geom" type="cylinder" size="0.06 0.03"/>
    </body>
    <body name="post_main" pos="0.1 0.2 0">
      <geom name="post_geom" type="box" size="0.01 0.01 0.1" pos="-0.05 -0.12 0"/>
    </body>
    <site name="spot" pos="0.3 0.3 0.2" type="box" size="0.01 0.02 0.03"/>
    <body name="left"><geom name="left_pad" type="sphere" size="0.001" pos="0 0 3"/></body>
  </worldbody>
</mujoco>
"""


def _make_scene(robot_xy: tuple[float, float] = (0.0, 0.0)) -> SceneGeometry:
    model = mujoco.MjModel.from_xml_string(_SCENE)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    roots = {"bar": "bar_main", "bowl": "bowl_main", "post": "post_main"}
    return SceneGeometry(model, data, roots, ("spot",), robot_xy)


@pytest.fixture
def scene() -> SceneGeometry:
    return _make_scene()


def test_oriented_box_keeps_the_true_size_of_a_turned_object(scene: SceneGeometry) -> None:
    box = scene.oriented_box("bar")
    np.testing.assert_allclose(box.size, [0.04, 0.10, 0.02], atol=1e-9)
    np.testing.assert_allclose(box.center, [0.1, 0.2, 0.01], atol=1e-9)
    turn = np.deg2rad(30)
    wide = 0.04 * np.cos(turn) + 0.10 * np.sin(turn)
    assert scene.extent("bar").size[0] == pytest.approx(wide)


def test_a_bar_is_taken_across_its_narrow_side(scene: SceneGeometry) -> None:
    grasp = plan_grasp(scene, "bar")
    assert grasp.kind == "whole"
    # The fingers open along the bar's x axis, which is 30 degrees off the world's x axis.
    fingers = np.array([-np.sin(grasp.yaw_rad), np.cos(grasp.yaw_rad)])
    axis = np.array([np.cos(np.deg2rad(30)), np.sin(np.deg2rad(30))])
    assert abs(fingers @ axis) == pytest.approx(1.0)


def test_what_is_wider_than_the_gripper_is_taken_by_its_rim(scene: SceneGeometry) -> None:
    grasp = plan_grasp(scene, "bowl")
    assert grasp.kind == "rim"
    offset = grasp.position[:2] - [0.5, 0.0]
    assert np.linalg.norm(offset) == pytest.approx(0.054, abs=1e-3)
    fingers = np.array([-np.sin(grasp.yaw_rad), np.cos(grasp.yaw_rad)])
    assert abs(fingers @ offset) == pytest.approx(np.linalg.norm(offset), rel=1e-3)


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_a_far_bowl_is_taken_by_the_near_side_of_its_rim(side: float) -> None:
    # Taken on the far side, a bowl on a far cabinet stretched the arm until its elbow was stuck.
    grasp = plan_grasp(_make_scene(robot_xy=(0.5, side * 0.8)), "bowl")
    np.testing.assert_allclose(grasp.position[:2], [0.5, side * 0.054], atol=1e-3)


def test_where_the_robot_stands_is_read_from_the_model(pudding_env: LiberoEnv) -> None:
    base = pudding_env.geometry.robot_xy
    reach_m = float(np.linalg.norm(pudding_env.arm().position[:2] - base))
    assert 0.3 < reach_m < 0.6
    assert base[1] == pytest.approx(0.0, abs=0.01)


def _tilted_cup(tilt_deg: float = 20.0) -> SceneGeometry:
    """A cup 10 cm wide and 6 cm high, tilted about x, its middle at (0.1, 0.2, 0.3)."""
    model = mujoco.MjModel.from_xml_string(
        f"""<mujoco><worldbody>
        <body name="cup_main" pos="0.1 0.2 0.3" euler="{tilt_deg} 0 0">
          <geom name="cup" type="cylinder" size="0.05 0.03"/>
        </body></worldbody></mujoco>"""
    )
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return SceneGeometry(model, data, {"cup": "cup_main"}, ())


@pytest.mark.parametrize("tilt_deg", [0.0, 20.0, 55.0])
def test_the_foot_of_a_tilted_cup_is_the_middle_of_its_lower_side(tilt_deg: float) -> None:
    tilt = np.deg2rad(tilt_deg)
    wanted = [0.1, 0.2 + 0.03 * np.sin(tilt), 0.3 - 0.03 * np.cos(tilt)]
    np.testing.assert_allclose(_tilted_cup(tilt_deg).foot("cup"), wanted, atol=1e-9)


def test_a_cup_that_has_tipped_over_stands_on_its_wall() -> None:
    tilt = np.deg2rad(70)
    wanted = [0.1, 0.2 - 0.05 * np.cos(tilt), 0.3 - 0.05 * np.sin(tilt)]
    np.testing.assert_allclose(_tilted_cup(70.0).foot("cup"), wanted, atol=1e-9)


@pytest.mark.parametrize(("relation", "foot_share"), [("on", 1.0), ("in", 0.0)])
def test_what_hangs_tilted_is_put_on_a_place_by_its_foot(
    relation: Literal["in", "on"], foot_share: float
) -> None:
    geometry = _tilted_cup()
    place = PlaceTarget(relation, np.array([0.5, 0.6]), 0.1, "plate")
    hand = np.array([0.1, 0.15, 0.32])

    release = place.release_of_held(geometry, "cup", hand)

    moved = release - hand
    foot_m = foot_share * 0.03 * np.sin(np.deg2rad(20))
    np.testing.assert_allclose(moved[:2], [0.4, 0.4 - foot_m], atol=1e-9)
    gap_m = float(geometry.extent("cup").low[2] + moved[2] - 0.1)
    assert 0.0 < gap_m < 0.02


def test_the_foot_of_a_region_is_its_floor(scene: SceneGeometry) -> None:
    np.testing.assert_allclose(scene.foot("spot"), [0.3, 0.3, 0.17])


def test_the_hand_keeps_clear_of_a_neighbour(scene: SceneGeometry) -> None:
    post = [scene.extent("post")]
    in_the_way = hand_clearance(np.array([0.05, 0.16, 0.05]), 0.0, post)
    beside = hand_clearance(np.array([0.20, 0.16, 0.05]), 0.0, post)
    above = hand_clearance(np.array([0.05, 0.16, 0.30]), 0.0, post)
    assert in_the_way < 0.0 < beside < above == np.inf


def test_an_unknown_name_lists_the_known_ones(scene: SceneGeometry) -> None:
    with pytest.raises(InvalidArgumentError, match=r"'bat'.*bar.*spot.*did you mean 'bar'"):
        scene.pose("bat")


def test_a_region_has_the_pose_and_bounds_of_its_site(scene: SceneGeometry) -> None:
    np.testing.assert_allclose(scene.pose("spot").position, [0.3, 0.3, 0.2])
    np.testing.assert_allclose(scene.extent("spot").size, [0.02, 0.04, 0.06])


def _sensor(contacts: list[tuple[str, str]]) -> GraspSensor:
    model = mujoco.MjModel.from_xml_string(
        """<mujoco><worldbody>
        <geom name="floor" type="plane" size="1 1 1"/>
        <body name="cup_main"><freejoint/><geom name="cup" size=".1"/></body>
        <body><geom name="left" size=".1"/></body><body><geom name="right" size=".1"/></body>
        <body><geom name="palm" size=".1"/></body></worldbody></mujoco>"""
    )

    class Data:
        """Only the contacts; poses come from the model."""

        class contact:  # noqa: N801  # MuJoCo's own name
            geom = np.array([[model.geom(a).id, model.geom(b).id] for a, b in contacts]).reshape(
                -1, 2
            )

        ncon = len(contacts)

    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    geometry = SceneGeometry(model, data, {"cup": "cup_main"}, ())
    return GraspSensor(
        model, Data(), geometry, ["cup"], ["left"], ["right"], ["left", "right", "palm"]
    )


@pytest.mark.parametrize(
    ("contacts", "held", "grasped"),
    [
        ([], None, None),
        ([("cup", "left")], None, None),
        ([("left", "cup"), ("cup", "right")], "cup", "cup"),
        ([("left", "cup"), ("cup", "right"), ("floor", "cup")], "cup", None),
        ([("left", "cup"), ("cup", "right"), ("palm", "cup")], "cup", "cup"),
        ([("floor", "cup")], None, None),
    ],
)
def test_an_object_is_grasped_when_both_fingers_and_nothing_else_hold_it(
    contacts: list[tuple[str, str]], held: str | None, grasped: str | None
) -> None:
    sensor = _sensor(contacts)
    assert sensor.held_object() == held
    assert sensor.grasped_object() == grasped


@pytest.mark.sim
def test_a_basket_is_entered_over_its_rim(pudding_env: LiberoEnv) -> None:
    pudding_env.reset(init_index=0)
    place = place_target(pudding_env.geometry, "in", "basket_1_contain_region")
    basket = pudding_env.geometry.extent("basket_1")
    assert place.support == "basket_1"
    assert place.support_m == pytest.approx(basket.high[2])
    np.testing.assert_allclose(place.center_xy, basket.center[:2])
    grasp = plan_grasp(pudding_env.geometry, "chocolate_pudding_1")
    assert place.release_position(grasp)[2] > basket.high[2] + grasp.hang_m


@pytest.mark.sim
def test_a_tracked_grasp_moves_with_its_object(pudding_env: LiberoEnv) -> None:
    pudding_env.reset(init_index=0)
    tracked = TrackedGrasp(pudding_env.geometry, "chocolate_pudding_1")
    before = tracked.box()
    pudding_env.displace_object("chocolate_pudding_1", [0.03, -0.02], 0.4)
    after = tracked.box()
    middle = pudding_env.geometry.pose("chocolate_pudding_1").position
    np.testing.assert_allclose(before.size, after.size)
    turn = np.array([[np.cos(0.4), -np.sin(0.4)], [np.sin(0.4), np.cos(0.4)]])
    arm = before.center[:2] - (middle[:2] - [0.03, -0.02])
    np.testing.assert_allclose(after.center[:2], middle[:2] + turn @ arm, atol=1e-6)


@pytest.mark.sim
def test_a_place_that_is_no_place_is_refused(pudding_env: LiberoEnv) -> None:
    with pytest.raises(InvalidArgumentError, match="relation"):
        place_target(pudding_env.geometry, "open", "basket_1")
