from __future__ import annotations

import pytest

from server.brain.task_words import Move, best_match, parse_task


@pytest.mark.parametrize(
    ("text", "moves"),
    [
        (
            "pick up the alphabet soup and place it in the basket",
            [Move("alphabet soup", "", "in", "basket")],
        ),
        (
            "Pick up the black bowl between the plate and the ramekin and place it on the plate.",
            [Move("black bowl", "between plate and ramekin", "on", "plate")],
        ),
        (
            "pick up the black bowl in the top drawer of the wooden cabinet and place it on the "
            "plate",
            [Move("black bowl", "in top drawer of wooden cabinet", "on", "plate")],
        ),
        (
            "put the wine bottle on top of the cabinet",
            [Move("wine bottle", "", "on", "cabinet")],
        ),
        ("put the cream cheese in the bowl", [Move("cream cheese", "", "in", "bowl")]),
        (
            "put both the alphabet soup and the tomato sauce in the basket",
            [
                Move("alphabet soup", "", "in", "basket"),
                Move("tomato sauce", "", "in", "basket"),
            ],
        ),
        ("Task: put the book on the shelf", [Move("book", "", "on", "shelf")]),
        (
            "You control a robot. Do this:\n please put the book_1 on the shelf!\nBe quick.",
            [Move("book 1", "", "on", "shelf")],
        ),
        ("open the middle drawer of the cabinet", []),
        ("turn on the stove and put the moka pot on it", []),
        ("", []),
    ],
)
def test_a_task_is_read_as_its_moves(text: str, moves: list[Move]) -> None:
    assert parse_task(text) == moves


NAMES = ["akita_black_bowl_1", "akita_black_bowl_2", "wooden_cabinet_1", "plate_1", "cookies_1"]


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("plate", ["plate_1"]),
        ("black bowl", ["akita_black_bowl_1", "akita_black_bowl_2"]),
        ("wooden cabinet", ["wooden_cabinet_1"]),
        ("cookie box", ["cookies_1"]),
        ("milk", []),
    ],
)
def test_words_find_the_names_that_fit_best(words: str, names: list[str]) -> None:
    assert best_match(words, NAMES) == names


def test_a_shorter_name_wins_over_one_with_words_nobody_said() -> None:
    assert best_match("butter", ["butter_milk_1", "butter_1"]) == ["butter_1"]
