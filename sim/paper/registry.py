"""All cases, by name."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable

from sim.paper import cases
from sim.paper.case import Case

#: As the study tells it: load, action tier, brain tier, remedies, both tiers; ours after them. Of
#: the remedies those that replay the study's vLLM come first, so that each is loaded once.
ORDER = (
    "workload",
    "three-clocks",
    "action-batch",
    "action-capacity",
    "brain-latency",
    "cliff",
    "sustained",
    "arrival-paths",
    "recovery",
    "finite-batch",
    "static-cap",
    "aimd",
    "offload",
    "admission",
    "envelope",
    "closed-loop",
    "mixed-rates",
    "seams",
)


def all_cases() -> dict[str, Case]:
    """Every file of `sim.paper.cases`; `action_capacity.py` is the case "action-capacity"."""
    modules = (module.name for module in pkgutil.iter_modules(cases.__path__))
    names = {module.replace("_", "-"): module for module in modules}
    return {name: _case(names[name]) for name in in_order(names)}


def in_order(names: Iterable[str]) -> list[str]:
    """Names of cases by `ORDER`; those it does not know come last."""
    return sorted(names, key=lambda name: (ORDER.index(name) if name in ORDER else 99, name))


def _case(module: str) -> Case:
    case = importlib.import_module(f"{cases.__name__}.{module}").CASE
    assert isinstance(case, Case), f"CASE of {module} is a {type(case).__name__}"
    return case
