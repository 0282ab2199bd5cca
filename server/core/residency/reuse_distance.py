"""How much of the pool others used between two turns of one episode."""

from __future__ import annotations

_MIN_SLOTS = 1024


class ReuseDistances:
    """Distinct blocks that other episodes touched since an episode's last turn.

    A turn touches every block of its conversation. Under a least-recently-used pool an episode's
    prefix survives as long as this distance and its own blocks fit together. Ended episodes go on
    counting for those that have not had a turn since: their blocks were used more recently. Blocks
    that several episodes share (the same constant text in front) are counted for each of them.

    One slot of a Fenwick tree for every turn, in order; an episode's blocks stand in the slot of
    its last turn, so a distance is a suffix sum: O(log n). When the slots run out, what nobody can
    ask for any more is merged: memory follows the number of living episodes.
    """

    def __init__(self) -> None:
        self._weights = [0] * _MIN_SLOTS
        self._tree = [0] * (_MIN_SLOTS + 1)
        self._total = 0
        self._next_slot = 0
        self._slots: dict[str, int] = {}
        self._blocks: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def num_slots(self) -> int:
        """Memory in use, for tests of its bound."""
        return len(self._weights)

    def touch(self, episode_id: str, blocks: int, kept_blocks: int | None = None) -> int | None:
        """An episode has a turn and touches all its blocks.

        Args:
            episode_id: Any episode; the first call begins it.
            blocks: Of the whole conversation after the turn.
            kept_blocks: How many of the blocks of its last turn are among them; None: all. The
                others were touched before and are still in the others' way.

        Returns:
            Blocks touched by others since this episode's last turn; None at its first.
        """
        if self._next_slot == len(self._weights):
            self._merge()
        slot = self._slots.get(episode_id)
        distance = None
        if slot is not None:
            distance = self._total - self._sum_through(slot)
            old = self._blocks[episode_id]
            kept = min(old, blocks) if kept_blocks is None else min(kept_blocks, old, blocks)
            self._add(slot, -kept)
        self._slots[episode_id] = self._next_slot
        self._blocks[episode_id] = blocks
        self._add(self._next_slot, blocks)
        self._next_slot += 1
        return distance

    def forget(self, episode_id: str) -> None:
        """The episode is no more. What it touched stays touched."""
        self._slots.pop(episode_id, None)
        self._blocks.pop(episode_id, None)

    def _add(self, slot: int, blocks: int) -> None:
        self._weights[slot] += blocks
        self._total += blocks
        index = slot + 1
        while index < len(self._tree):
            self._tree[index] += blocks
            index += index & -index

    def _sum_through(self, slot: int) -> int:
        index, total = slot + 1, 0
        while index:
            total += self._tree[index]
            index -= index & -index
        return total

    def _merge(self) -> None:
        """Number the living episodes anew, in order of their last turn.

        Nobody can ask where between two living episodes a block was touched. What lies before an
        episode's slot moves into it, where that episode's own distance does not see it and that of
        every older one does.
        """
        in_order = sorted(self._slots, key=self._slots.__getitem__)
        weights: list[int] = []
        # Nobody sees what lies before the oldest one's slot.
        begin = self._slots[in_order[0]] if in_order else 0
        for episode_id in in_order:
            end = self._slots[episode_id] + 1
            weights.append(sum(self._weights[begin:end]))
            begin = end
        weights.append(sum(self._weights[begin:]))
        num_slots = max(_MIN_SLOTS, 4 * len(weights))
        self._weights = [0] * num_slots
        self._tree = [0] * (num_slots + 1)
        self._total = 0
        for slot, blocks in enumerate(weights):
            self._add(slot, blocks)
        self._slots = {episode_id: slot for slot, episode_id in enumerate(in_order)}
        self._next_slot = len(weights)
