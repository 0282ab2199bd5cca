from __future__ import annotations

import copy
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from server.core.residency.reuse_distance import ReuseDistances


@dataclass
class BruteForce:
    """Every block by name, and when it was held or touched last."""

    clock: int = 0
    touched: dict[int, int] = field(default_factory=dict)
    blocks: dict[str, list[int]] = field(default_factory=dict)
    begun: dict[str, int] = field(default_factory=dict)
    running: set[str] = field(default_factory=set)
    next_block: int = 0

    def begin(self, name: str) -> int | None:
        self.clock += 1
        for other in self.running:
            self.touched |= dict.fromkeys(self.blocks.get(other, ()), self.clock)
        mine = self.blocks.setdefault(name, [])
        distance = None
        if name in self.begun:
            since = self.begun[name]
            own = set(mine)
            distance = sum(at > since for b, at in self.touched.items() if b not in own)
        self.begun[name] = self.clock
        self.touched |= dict.fromkeys(mine, self.clock)
        self.running.add(name)
        return distance

    def refresh(self, name: str) -> None:
        if name in self.begun:
            self.clock += 1
            self.begun[name] = self.clock
            self.touched |= dict.fromkeys(self.blocks[name], self.clock)

    def end(self, name: str, blocks: int, left: int) -> None:
        self.clock += 1
        self.running.discard(name)
        mine = self.blocks[name]
        # The last ones are those that it did not use again.
        mine = mine[: len(mine) - left]
        while len(mine) < blocks:
            mine.append(self.next_block)
            self.next_block += 1
        self.blocks[name] = mine
        self.touched |= dict.fromkeys(mine, self.clock)

    def forget(self, name: str) -> None:
        self.begun.pop(name, None)
        self.blocks.pop(name, None)


actions = st.lists(
    st.tuples(
        st.sampled_from("abcdef"),
        st.sampled_from(["turn", "turn", "end", "refresh"]),
        st.integers(0, 8),
    ),
    max_size=80,
)


@settings(deadline=None)
@given(actions)
def test_distances_are_those_of_a_table_of_all_blocks(
    steps: list[tuple[str, str, int]],
) -> None:
    fast, slow = ReuseDistances(), BruteForce()
    running: set[str] = set()
    sizes: dict[str, int] = {}
    for name, action, number in steps:
        if action == "end":
            if name not in running:
                fast.forget(name)
                slow.forget(name)
                sizes.pop(name, None)
        elif action == "refresh":
            if fast.needed_blocks().get(name) is not None:
                fast.begin_refresh(name)
                fast.end_refresh(name, True)
            slow.refresh(name)
        elif name in running:
            running.discard(name)
            sizes[name] = sizes.get(name, 0) + number
            fast.end_turn(name, sizes[name])
            slow.end(name, sizes[name], 0)
        else:
            running.add(name)
            assert fast.begin_turn(name) == slow.begin(name)


def take_turn(distances: ReuseDistances, name: str, blocks: int, left: int = 0) -> int | None:
    distance = distances.begin_turn(name)
    distances.end_turn(name, blocks, left)
    return distance


def test_an_episode_that_ended_still_stands_between_two_turns_of_another() -> None:
    distances = ReuseDistances()
    take_turn(distances, "a", 10)
    take_turn(distances, "b", 7)
    distances.forget("b")

    assert take_turn(distances, "a", 12) == 7
    assert take_turn(distances, "a", 14) == 0


def test_what_happened_while_a_turn_generated_is_in_the_way_of_the_next() -> None:
    distances = ReuseDistances()
    take_turn(distances, "a", 10)
    distances.begin_turn("a")
    take_turn(distances, "b", 7)
    distances.end_turn("a", 12)

    assert distances.begin_turn("a") == 7


def test_a_conversation_with_a_turn_running_holds_its_blocks() -> None:
    distances = ReuseDistances()
    take_turn(distances, "b", 7)
    distances.begin_turn("b")
    take_turn(distances, "a", 10)

    assert distances.begin_turn("a") == 7
    assert distances.held_blocks == 17


def test_one_that_slept_all_the_while_is_in_nobody_s_way() -> None:
    distances = ReuseDistances()
    take_turn(distances, "b", 7)
    take_turn(distances, "a", 10)

    assert distances.begin_turn("a") == 0


def test_the_stale_copy_of_a_lost_prefix_stays_in_the_others_way() -> None:
    distances = ReuseDistances()
    take_turn(distances, "a", 10)
    take_turn(distances, "b", 7)
    take_turn(distances, "b", 8, left=7)

    assert distances.begin_turn("a") == 8 + 7


def test_memory_follows_the_living_and_not_the_turns() -> None:
    distances = ReuseDistances()
    for number in range(30_000):
        name = f"robot {number % 20}, episode {number // 200}"
        take_turn(distances, name, number % 200, left=number % 3)
        if number % 200 >= 180:
            distances.forget(name)

    assert len(distances) <= 20
    assert distances.num_left <= 256


def test_a_refresh_makes_a_prefix_as_young_as_a_turn_would() -> None:
    distances = ReuseDistances()
    take_turn(distances, "a", 10)
    take_turn(distances, "b", 7)
    assert distances.needed_blocks() == {"a": 17, "b": 7}

    distances.begin_refresh("a")
    assert distances.needed_blocks() == {"b": 7}
    distances.end_refresh("a", True)

    assert distances.needed_blocks() == {"a": 10, "b": 17}
    assert distances.begin_turn("a") == 0


def test_a_refresh_that_touched_nothing_changes_nothing() -> None:
    distances = ReuseDistances()
    take_turn(distances, "a", 10)
    take_turn(distances, "b", 7)
    distances.begin_refresh("a")
    distances.end_refresh("a", None)

    assert distances.begin_turn("a") == 7


def test_a_prefix_that_a_refresh_had_to_compute_anew_leaves_its_old_copy_behind() -> None:
    distances = ReuseDistances()
    take_turn(distances, "a", 10)
    take_turn(distances, "b", 7)
    distances.begin_refresh("b")
    distances.end_refresh("b", False)

    assert distances.begin_turn("a") == 7 + 7


def test_what_a_refresh_touched_stays_touched_when_its_episode_ends() -> None:
    distances = ReuseDistances()
    take_turn(distances, "b", 7)
    take_turn(distances, "a", 10)
    distances.begin_refresh("b")
    distances.end_refresh("b", True)
    distances.forget("b")

    assert distances.begin_turn("a") == 7


def test_a_turn_that_begins_during_a_refresh_counts_as_the_later_touch() -> None:
    distances = ReuseDistances()
    take_turn(distances, "a", 10)
    distances.begin_refresh("a")
    take_turn(distances, "b", 7)
    distances.begin_turn("a")
    distances.end_refresh("a", True)
    distances.end_turn("a", 12)

    assert distances.begin_turn("a") == 0


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from("abcde"),
            st.sampled_from(["turn", "turn", "forget", "give up", "refresh", "lose"]),
            st.integers(0, 8),
        ),
        max_size=40,
    )
)
def test_what_a_prefix_needs_is_what_its_next_turn_would_find_in_its_way_and_itself(
    steps: list[tuple[str, str, int]],
) -> None:
    distances = ReuseDistances()
    sizes: dict[str, int] = {}
    running: set[str] = set()
    for name, action, number in steps:
        if action == "turn" and name in running:
            running.discard(name)
            sizes[name] += number
            distances.end_turn(name, sizes[name], left_blocks=number // 3)
        elif action == "turn":
            running.add(name)
            sizes.setdefault(name, 0)
            distances.begin_turn(name)
        elif action == "forget":
            running.discard(name)
            sizes.pop(name, None)
            distances.forget(name)
        elif action == "give up":
            running.discard(name)
            distances.abandon_turn(name)
        elif name in sizes:
            distances.begin_refresh(name)
            distances.end_refresh(name, action == "refresh")

        needed = distances.needed_blocks()
        assert needed.keys() == sizes.keys()
        for episode_id, blocks in needed.items():
            distance = copy.deepcopy(distances).begin_turn(episode_id)
            assert distance is not None
            assert blocks == distance + sizes[episode_id]


def test_a_turn_that_came_to_nothing_holds_its_blocks_no_longer() -> None:
    distances = ReuseDistances()
    take_turn(distances, "a", 10)
    take_turn(distances, "b", 7)
    distances.begin_turn("a")
    distances.abandon_turn("a")
    take_turn(distances, "b", 7)

    assert distances.held_blocks == 0
    # It was touched when the turn began, and not since b's last turn began.
    assert distances.begin_turn("b") == 0


def test_giving_up_a_turn_that_is_not_on_changes_nothing() -> None:
    distances = ReuseDistances()
    take_turn(distances, "a", 10)
    distances.abandon_turn("a")
    distances.abandon_turn("nobody")

    assert distances.begin_turn("a") == 0
    assert distances.held_blocks == 10
