from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from server.__main__ import main
from server.core.admission import UnlimitedAdmission
from sim.fleet.event_loop import EventLoop
from sim.fleet.replay.replay import FleetReplay
from sim.fleet.replay.result import ReplayResult
from sim.fleet.replay.settings import ActionChoice, FleetPoint, ReplaySettings
from sim.fleet.workload.trace import EpisodeTrace, TurnTrace
from sim.paper.cases.envelope import (
    CAPS,
    STARVED_LIMIT,
    Outcome,
    Point,
    action_rows,
    grid,
    notes,
    plan_of,
    plan_rows,
    planned_tiers,
    policy_share,
    replay_rows,
)
from tests.fakes.replay_brain import FakeBrain

HELD = Outcome(Point(20.0, 1, 8), 2.0, 1.0, 0.99, 0.005, 0.02, 0.25, 76_000.0, 9, 24, 9)


def intervals(seed: int = 0) -> Iterator[EpisodeTrace]:
    """Episodes of ten turns with 0 to 3 s of policy after each."""
    chance = random.Random(seed)
    while True:
        turns = tuple(TurnTrace(100, 10, chance.randrange(61)) for _ in range(10))
        yield EpisodeTrace("t", "family", turns)


def replayed(hz: float, gpus: int, num_robots: int) -> ReplayResult:
    """A fleet whose brain takes 2 s for every turn, so that only the action tier can fail."""
    action = ActionChoice(gpus, hz, whole_gap=True)
    # One after the other: robots that began together would run their policies together.
    fleet_over_time = tuple(FleetPoint(0.7 * place, place + 1) for place in range(num_robots))
    settings = ReplaySettings(fleet_over_time, action=action, duration_s=150.0)
    loop = EventLoop()
    brain = FakeBrain(loop, turn_s=2.0)
    fleet = FleetReplay(settings, loop, brain, UnlimitedAdmission(), intervals())
    fleet.run()
    return fleet.result(0, "none", is_partial=False, wall_s=0.0)


@pytest.mark.parametrize(("hz", "places"), [(25.0, 3), (20.0, 7)])
def test_the_action_tier_holds_the_planned_robots_and_not_half_as_many_again(
    hz: float, places: int
) -> None:
    share = policy_share(replayed(hz, 1, places))
    planned = planned_tiers(plan_of(hz, 1, 76_000.0, share))[1]
    assert planned >= places
    held, starved = (replayed(hz, 1, number) for number in (planned, round(1.5 * planned)))
    assert held.starved_fraction is not None
    assert held.starved_fraction <= STARVED_LIMIT
    assert starved.starved_fraction is not None
    assert starved.starved_fraction > STARVED_LIMIT


def test_the_share_of_policies_is_the_same_however_much_they_starve() -> None:
    alone, crowded = (replayed(25.0, 1, number) for number in (3, 6))
    assert (crowded.starved_fraction or 0.0) > 0.05
    assert policy_share(crowded) == pytest.approx(policy_share(alone), rel=0.05)


@pytest.mark.parametrize("share", [1.0, 0.4, 0.02])
@pytest.mark.parametrize(("hz", "gpus"), [(25.0, 1), (20.0, 1), (20.0, 2), (10.0, 2)])
def test_the_case_asks_the_same_plan_as_the_command(
    capsys: pytest.CaptureFixture[str], hz: float, gpus: int, share: float
) -> None:
    pool = ["--pool-blocks", "4270", "--block-tokens", "784", "--mean-context", "76000"]
    tier = ["--deadline-hz", str(hz), "--gpus", str(gpus), "--policy-share", str(share)]
    assert main(["plan", *pool, *tier, "--json", "-"]) == 0
    content = json.loads(capsys.readouterr().out)
    inside = next(
        li["value"] for li in content["together"] if li["name"] == "robots inside at once"
    )
    plan = plan_of(hz, gpus, 76_000.0, share)
    assert min(planned_tiers(plan)) == inside
    assert plan.binds == content["binds"]


def test_a_tier_that_fails_where_the_plan_trusts_it_is_a_promise_too_many() -> None:
    assert HELD.failed == ()
    assert HELD.agreement == "agree"
    starved = replace(HELD, starved=0.2)
    assert (starved.failed, starved.agreement) == (("action",), "plan promises too much")
    beyond = replace(starved, point=Point(20.0, 1, 12))
    assert (beyond.planned_to_fail, beyond.agreement) == (("action",), "agree")
    assert replace(HELD, point=Point(20.0, 1, 12)).agreement == "plan is cautious"
    collapsed = replace(HELD, hit=0.9)
    assert (collapsed.failed, collapsed.agreement) == (("brain",), "plan promises too much")
    assert replace(HELD, lowest_hit=0.7).failed == ("brain",)


def test_rows_name_the_largest_cap_that_holds_and_what_fails_beyond() -> None:
    beyond = replace(HELD, point=Point(20.0, 1, 16), starved=0.5)
    rows = replay_rows([HELD, beyond])
    assert [(row.row, row.quantity, row.ours) for row in rows] == [
        ("20Hz_1gpu", "robots_carried", 8.0),
        ("20Hz_1gpu", "robots_planned", 9.0),
    ]
    assert "at 16 fails: action" in rows[0].note
    assert "1 x plan" not in notes([HELD, beyond])[0]
    assert "2 x agree" in notes([HELD, beyond])[0]


def test_the_studys_own_figures_of_the_plan_hold() -> None:
    assert {row.verdict for row in plan_rows()} == {"inside"}
    binds = {row.row: row.note for row in action_rows()}
    assert "action 7: action binds" in binds["20Hz_1gpu_all_at_once"]
    assert "brain binds" in binds["5Hz_1gpu_all_at_once"]


def test_a_point_is_replayed_as_long_as_the_tier_it_asks_needs() -> None:
    assert Point(20.0, 1, 24).settings(quick=False).duration_s == 1800.0
    assert Point(20.0, 1, 8).settings(quick=False).duration_s == 900.0
    assert Point(20.0, 1, 24).settings(quick=True).duration_s == 360.0


def test_the_quick_grid_is_part_of_the_question_and_the_whole_one_has_both_kinds() -> None:
    assert all((point.hz, point.gpus) in CAPS for point in grid(quick=True))
    assert {point.whole_gap for point in grid(quick=False)} == {True, False}
    assert len(set(grid(quick=False))) == len(grid(quick=False))
