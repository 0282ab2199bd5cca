from __future__ import annotations

from dataclasses import replace

from server.core.admission import UnlimitedAdmission
from server.core.residency import LedgerSnapshot
from sim.fleet.replay.settings import FleetPoint, ReplaySettings
from tests.unit.sim.fleet.replay.conftest import ENGINE, Played, trace


class Refreshing(UnlimitedAdmission):
    def __init__(self, limit_blocks: int | None) -> None:
        self.limit_blocks = limit_blocks

    def refresh_limit_blocks(self, ledger: LedgerSnapshot) -> int | None:
        return self.limit_blocks


def played(limit_blocks: int | None, **brain: object) -> Played:
    """Two robots whose arm moves for 20 s between two turns."""
    settings = ReplaySettings.sustained(2, engine=ENGINE, duration_s=100.0, warm_up_s=0.0)
    return Played(settings, [trace(env_steps=400)], Refreshing(limit_blocks), **brain)


def refreshes(run: Played) -> list[tuple[float, int, int]]:
    return [
        (when_s, turn.num_prompt_tokens, turn.num_output_tokens)
        for when_s, turn in run.brain.submitted
        if "refresh" in turn.name
    ]


def test_a_refresh_is_one_token_behind_what_the_cache_can_hand_back() -> None:
    run = played(4)

    # 299 of 300 tokens were computed, so 2 whole blocks of 100 and one token behind them; 3 blocks
    # each of two episodes are more than 4.
    assert refreshes(run)[0][1:] == (201, 1)
    assert 0 < run.result.refreshes <= len(refreshes(run))


def test_without_a_limit_the_engine_gets_turns_alone() -> None:
    run = played(None)

    assert refreshes(run) == []
    assert (run.result.refreshes, run.result.refreshes_lost) == (0, 0)


def test_refreshes_are_no_turns_of_the_result() -> None:
    assert played(4).result.turns == played(None).result.turns
    assert played(4).result.hit == played(None).result.hit


def test_a_prefix_that_was_gone_counts_as_lost() -> None:
    run = played(4, keeps=lambda now_s: now_s < 10.0)

    assert run.result.refreshes_lost > 0
    assert run.result.refreshes_lost < run.result.refreshes


def test_the_prompt_of_a_turn_that_generates_is_what_is_touched() -> None:
    run = played(-1, turn_s=10.0)

    # The first turn of 250 tokens is on until 10 s: 2 whole blocks of its prompt.
    first = refreshes(run)[0]
    assert first == (1.0, 201, 1)


def test_a_robot_that_left_during_its_refresh_is_no_fault() -> None:
    settings = ReplaySettings(
        (FleetPoint(0.0, 2), FleetPoint(10.5, 0, cuts_off=True)),
        engine=ENGINE,
        duration_s=60.0,
        warm_up_s=0.0,
    )
    run = Played(settings, [trace(env_steps=400)], Refreshing(4), turn_s=3.0)

    assert run.result.turns > 0


def test_what_is_touched_before_a_rebuilt_prompt_is_seen_is_the_old_conversation() -> None:
    settings = ReplaySettings.sustained(1, engine=ENGINE, duration_s=20.0, warm_up_s=0.0)
    turns = replace(trace(), turns=(*trace(2).turns, replace(trace().turns[0], kept_tokens=100)))
    run = Played(settings, [turns], Refreshing(-1), turn_s=3.0, prompt_s=2.5)
    rebuilt = [turn for _, turn in run.brain.submitted if turn.name == "0-0-2"]
    began_s = next(at for at, turn in run.brain.submitted if turn in rebuilt)
    touched = [
        turn
        for at, turn in run.brain.submitted
        if "refresh" in turn.name and began_s < at < began_s + 2.5
    ]

    assert touched
    assert all(turn.blocks is not rebuilt[0].blocks for turn in touched)
