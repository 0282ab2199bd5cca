from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from server.core.residency.reuse_distance import ReuseDistances


@dataclass
class BruteForce:
    """Every block by name, and when it was touched last."""

    clock: int = 0
    touched: dict[tuple[str, int], int] = field(default_factory=dict)
    blocks: dict[str, list[int]] = field(default_factory=dict)
    last: dict[str, int] = field(default_factory=dict)
    next_block: int = 0

    def touch(self, name: str, blocks: int, kept: int | None) -> int | None:
        self.clock += 1
        distance = None
        if name in self.last:
            distance = sum(
                at > self.last[name] for (owner, _), at in self.touched.items() if owner != name
            )
        mine = self.blocks.get(name, [])[: blocks if kept is None else min(kept, blocks)]
        while len(mine) < blocks:
            mine.append(self.next_block)
            self.next_block += 1
        self.blocks[name] = mine
        self.last[name] = self.clock
        self.touched |= {(name, block): self.clock for block in mine}
        return distance

    def forget(self, name: str) -> None:
        self.last.pop(name, None)
        # A later episode of this name is another one, with blocks of its own.
        for owner, block in [key for key in self.touched if key[0] == name]:
            self.touched[f"ended {name} {self.clock}", block] = self.touched.pop((owner, block))
        self.blocks.pop(name, None)


steps = st.lists(
    st.tuples(
        st.sampled_from("abcdef"),
        st.sampled_from(["turn", "turn", "turn", "rebuild", "end"]),
        st.integers(0, 8),
    ),
    max_size=80,
)


@settings(deadline=None)
@given(steps, st.booleans())
def test_distances_are_those_of_a_table_of_all_blocks(
    actions: list[tuple[str, str, int]], merges_all_the_time: bool
) -> None:
    fast, slow = ReuseDistances(), BruteForce()
    sizes: dict[str, int] = {}
    for name, action, number in actions:
        if action == "end":
            fast.forget(name)
            slow.forget(name)
            sizes.pop(name, None)
            continue
        if action == "rebuild" and name in sizes:
            size, kept = number, min(number, sizes[name]) // 2
        else:
            size, kept = sizes.get(name, 0) + number, None
        sizes[name] = size
        if merges_all_the_time:
            fast._merge()
        assert fast.touch(name, size, kept) == slow.touch(name, size, kept)


def test_an_episode_that_ended_still_stands_between_two_turns_of_another() -> None:
    distances = ReuseDistances()
    distances.touch("a", 10)
    distances.touch("b", 7)
    distances.forget("b")

    assert distances.touch("a", 12) == 7
    assert distances.touch("a", 14) == 0


def test_memory_follows_the_living_and_not_the_turns() -> None:
    distances = ReuseDistances()
    for number in range(30_000):
        distances.touch(f"robot {number % 20}, episode {number // 200}", number % 200)
        if number % 200 >= 180:
            distances.forget(f"robot {number % 20}, episode {number // 200}")

    assert len(distances) <= 20
    assert distances.num_slots == 1024
