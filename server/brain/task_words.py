"""What a pick-and-place task in words is about: which thing, from where, and where to.

Understands "pick up the X and place it in|on the Y", "put the X in|on|on top of the Y", and
"put both the X and the Y in the Z". Everything else is not understood, and says so by None.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Relation = Literal["in", "on"]

_HOW = r"(?P<how>in(?:to|side)?|on(?:to| top of)?)"
_PICK_PLACE = re.compile(
    rf"pick up (?P<what>.+?),? (?:and|then) (?:place|put) it {_HOW} (?P<where>.+)"
)
_PUT_BOTH = re.compile(rf"put both (?P<what>.+?) and (?P<other>.+?) {_HOW} (?P<where>.+)")
_PUT = re.compile(rf"(?:put|place) (?P<what>.+?) {_HOW} (?P<where>[^,]+)")
_SENTENCES = re.compile(r"\n+|[.;!?](?:\s|$)")
_LABEL = re.compile(r"^[^\w]*(?:\w+\s*:)?\s*(?:please\s+)?")
#: Parts of names that nobody says.
_NOT_SAID = {"region"}
_ARTICLES = re.compile(r"\b(?:the|a|an|it|its)\b")
#: Words that begin a description of where a thing is, after its name.
_PLACE_WORDS = re.compile(r"\b(?:between|next to|from|on|in|at|near|under|behind)\b")


@dataclass(frozen=True)
class Move:
    """One thing to carry.

    Attributes:
        what: Words that name it, without articles, for example "black bowl".
        described: Words that say which one is meant, for example "next to ramekin". May be empty.
        relation: Whether it goes into or onto its destination.
        where: Words that name the destination.
    """

    what: str
    described: str
    relation: Relation
    where: str


def parse_task(text: str) -> list[Move]:
    """The moves a task asks for, in order. Empty: not understood.

    The first sentence or line that is such a task counts; a label before it ("Task: ...") and
    words around it do not matter.
    """
    for sentence in _SENTENCES.split(text.lower().replace("_", " ")):
        words = " ".join(_LABEL.sub("", sentence).split())
        moves = _parse_sentence(words)
        if moves:
            return moves
    return []


def _parse_sentence(words: str) -> list[Move]:
    if found := _PICK_PLACE.fullmatch(words):
        return [_move(found["what"], found["how"], found["where"])]
    if found := _PUT_BOTH.fullmatch(words):
        return [_move(found[name], found["how"], found["where"]) for name in ("what", "other")]
    if (found := _PUT.fullmatch(words)) and " and " not in found["where"]:
        return [_move(found["what"], found["how"], found["where"])]
    return []


def best_match(words: str, names: Sequence[str]) -> list[str]:
    """Names that fit the words best, all equally good ones, in the order given. Empty: none fits.

    A name fits by the share of its words that are asked for and the share of the asked words that
    it has; both count, so "black bowl" finds akita_black_bowl_1 and not wooden_cabinet_1.
    """
    wanted = {_singular(word) for word in words.split()}
    scores = {}
    for name in names:
        parts = re.split(r"[_\s]+", name.lower())
        has = {_singular(part) for part in parts if part and not part.isdigit()} - _NOT_SAID
        common = len(wanted & has)
        if common and wanted:
            scores[name] = common / len(wanted) + common / len(has)
    if not scores:
        return []
    best = max(scores.values())
    return [name for name, score in scores.items() if score == best]


def _singular(word: str) -> str:
    return word.removesuffix("s") if len(word) > 3 else word


def _move(what: str, how: str, where: str) -> Move:
    place = _PLACE_WORDS.search(what)
    name, described = (what[: place.start()], what[place.start() :]) if place else (what, "")
    relation: Relation = "in" if how.startswith("in") else "on"
    return Move(_plain(name), _plain(described), relation, _plain(where))


def _plain(words: str) -> str:
    return " ".join(_ARTICLES.sub(" ", words).split())
