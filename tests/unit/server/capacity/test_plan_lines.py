"""The plan: every figure says how it came about, and the figures agree with the rules."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_sdk.errors import InvalidArgumentError
from server.capacity.plan import main, render
from server.capacity.plan_lines import ActionInputs, BrainInputs, PlanInputs, make_plan
from server.core.batching.latency_table import STUDY_TABLE
from server.core.capacity import KvPool


def inputs(
    pool=None,
    context_tokens=95_000,
    control_hz=20.0,
    num_gpus=1,
    planned_action=True,
    planned_brain=True,
    policy_share=1.0,
):
    action = ActionInputs(
        control_hz=control_hz,
        table=STUDY_TABLE,
        table_source="the study",
        executed_steps=5,
        horizon=10,
        num_gpus=num_gpus,
        policy_share=policy_share,
    )
    brain = BrainInputs(
        pool=pool or KvPool(4270, 784, 3),
        mean_context_tokens=context_tokens,
        step_tokens=16_384,
        turn_cycle_s=9.4,
        pool_source="given",
        context_source="given",
        turn_source="the study",
    )
    return PlanInputs(brain if planned_brain else None, action if planned_action else None)


def value_of(lines, name):
    return next(line.value for line in lines if line.name == name)


def test_the_study_s_box_is_bound_by_its_action_tier_until_it_has_three_gpus():
    one = make_plan(inputs(num_gpus=1))
    assert (one.binds, value_of(one.together, "robots inside at once")) == ("action", 7)
    three = make_plan(inputs(num_gpus=3))
    assert (three.binds, value_of(three.together, "robots inside at once")) == ("brain", 20)


def test_the_count_of_kept_snapshots_is_the_study_s_cliff_at_100k_tokens():
    plan = make_plan(inputs(context_tokens=100_000))
    assert value_of(plan.brain, "sessions that fit, every snapshot kept") == 28


def test_the_starting_cap_is_never_more_than_the_sessions_that_fit():
    # Blocks of 16 tokens and contexts of 16: a block each, and 64 more for states.
    plan = make_plan(inputs(pool=KvPool(1000, 16, 64), context_tokens=16, control_hz=1.0))
    fitting = value_of(plan.brain, "sessions that fit, latest snapshot kept")
    assert (fitting, value_of(plan.brain, "starting cap")) == (15, 15)
    assert "brain 15" in plan.together[0].formula


def test_a_model_without_states_is_counted_once():
    plan = make_plan(inputs(pool=KvPool(4270, 784, 0)))
    counts = [line for line in plan.brain if line.name.startswith("sessions that fit")]
    assert [(line.name, line.value) for line in counts] == [("sessions that fit", 4269 // 122)]


def test_without_a_control_rate_only_the_brain_is_planned_and_the_text_says_so():
    plan = make_plan(inputs(planned_action=False))
    assert plan.binds is None
    assert plan.action == plan.together == ()
    assert "give --deadline-hz" in render(plan)


def test_the_action_tier_is_planned_alone_and_the_text_says_so():
    plan = make_plan(inputs(planned_brain=False))
    assert (plan.binds, plan.brain, plan.together) == (None, (), ())
    assert value_of(plan.action, "robots, paced, rows by control step") == 7
    assert "Brain tier: not planned; give --pool-blocks" in render(plan)
    assert "pool_blocks" not in plan.to_json()["inputs"]


def test_robots_that_seldom_run_their_policy_share_the_action_tier_and_the_brain_binds():
    plan = make_plan(inputs(policy_share=0.0226))
    assert value_of(plan.action, "robots that share them") > 100
    assert (plan.binds, value_of(plan.together, "robots inside at once")) == ("brain", 20)
    assert not any(line.name == "robots that share them" for line in make_plan(inputs()).action)


def test_the_end_of_the_latency_table_shows_as_a_lower_bound():
    plan = make_plan(inputs(control_hz=4.0))
    assert "L(64) = 1030 ms" in render(plan)
    assert ">= 64 robots" in render(plan)


@given(
    st.builds(
        KvPool,
        num_blocks=st.integers(2, 50_000),
        block_tokens=st.integers(1, 2048),
        num_state_groups=st.integers(0, 5),
    ),
    st.integers(1, 500_000),
    st.floats(1.0, 100.0),
    st.integers(1, 16),
    st.floats(0.001, 1.0),
)
def test_every_line_of_any_plan_has_rule_numbers_and_source_and_is_json(
    pool, context_tokens, control_hz, num_gpus, policy_share
):
    plan = make_plan(inputs(pool, context_tokens, control_hz, num_gpus, policy_share=policy_share))
    for line in (*plan.brain, *plan.action, *plan.together):
        assert line.rule
        assert line.formula
        assert line.source
        assert line.name in render(plan)
    assert json.loads(json.dumps(plan.to_json(), allow_nan=False))["binds"] == plan.binds


def test_the_snapshot_rules_are_named_by_the_value_of_the_setting():
    sources = [line.source for line in make_plan(inputs()).brain]

    assert any("prefix_cache_retention_interval = 0," in source for source in sources)
    assert any("prefix_cache_retention_interval = -1," in source for source in sources)


@pytest.mark.parametrize(
    ("option", "partner"),
    [
        (("--latency-table", "nofile"), "--deadline-hz"),
        (("--gpus", "2"), "--deadline-hz"),
        (("--policy-share", "0.5"), "--deadline-hz"),
        (("--policy", "foo"), "--from-server"),
    ],
)
def test_an_option_without_its_partner_is_refused(option, partner):
    given_pool = ["--pool-blocks", "4270", "--block-tokens", "784", "--mean-context", "95000"]

    with pytest.raises(InvalidArgumentError, match=f"{option[0]}.*{partner}"):
        main([*given_pool, *option])


def test_without_any_option_it_is_told_that_the_action_tier_can_be_planned_alone():
    alone = "--deadline-hz alone plans the action tier"

    with pytest.raises(InvalidArgumentError, match=f"--pool-blocks.*{alone}"):
        main([])
    with pytest.raises(InvalidArgumentError, match="--pool-blocks") as refused:
        main(["--deadline-hz", "20", "--block-tokens", "784"])
    assert alone not in str(refused.value)
