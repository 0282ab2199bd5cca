from __future__ import annotations

import pytest

pytest.importorskip("mujoco", reason="the simulator is not installed")

from sim.libero.scene import mentioned, words_of

pytestmark = pytest.mark.sim

NAMES = ("milk_1", "akita_black_bowl_1", "akita_black_bowl_2", "basket_1", "wooden_cabinet_1")


def test_names_are_written_as_people_do() -> None:
    assert words_of("akita_black_bowl_1") == "akita black bowl"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("put milk_1 in basket_1", ("milk_1", "basket_1")),
        ("Put the milk into the basket.", ("milk_1", "basket_1")),
        ("in the basket goes the milk", ("basket_1", "milk_1")),
        (
            "put akita_black_bowl_2 on the wooden cabinet",
            ("akita_black_bowl_2", "wooden_cabinet_1"),
        ),
        ("wave", ()),
    ],
)
def test_things_are_found_by_name_or_by_words_in_the_order_of_the_text(
    text: str, found: tuple[str, ...]
) -> None:
    assert mentioned(text, NAMES) == found
