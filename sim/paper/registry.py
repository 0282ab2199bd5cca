"""All cases, by name."""

from __future__ import annotations

import importlib
import pkgutil

from sim.paper import cases
from sim.paper.case import Case


def all_cases() -> dict[str, Case]:
    """Every file of `sim.paper.cases`; `action_capacity.py` is the case "action-capacity"."""
    return {
        module.name.replace("_", "-"): _case(module.name)
        for module in pkgutil.iter_modules(cases.__path__)
    }


def _case(module: str) -> Case:
    case = importlib.import_module(f"{cases.__name__}.{module}").CASE
    assert isinstance(case, Case), f"CASE of {module} is a {type(case).__name__}"
    return case
