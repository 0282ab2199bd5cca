"""Which code a result depends on, so that a kept one is not taken for one of other code."""

from __future__ import annotations

import ast
from functools import lru_cache
from pathlib import Path

from sim.code_meaning import digest_of, files_of

_ROOT = Path(__file__).parents[3]
_ADMISSION = "server.core.admission"
#: What every replay runs. Of the policies only the one that decides counts.
_ALWAYS = (
    "server/capacity/engine",
    "server/core/admission/expected_wait.py",
    "server/core/admission/fair_order.py",
    "server/core/admission/interface.py",
    "server/core/capacity",
    "server/core/fleet_watch.py",
    "server/core/leases.py",
    "server/core/registry.py",
    "server/core/residency",
    "sim/fleet/brain",
    "sim/fleet/event_loop.py",
    "sim/fleet/replay",
    "sim/fleet/statistics",
    "sim/fleet/workload",
)
_WITH_ACTION = ("server/core/batching", "sim/fleet")
#: Parts of those folders that run replays or check what goes in, and change no result.
_NOT = (
    "sim/fleet/live",
    "sim/fleet/replay/checks.py",
    "sim/fleet/replay/code_digest.py",
    "sim/fleet/replay/runner.py",
    "sim/fleet/replay/store.py",
    "sim/fleet/replay/worker.py",
    "sim/fleet/workload/recorder.py",
)


@lru_cache
def code_digest(policy_module: str, with_action: bool) -> str:
    """Changes with the meaning of the code, not with its comments, docstrings or layout.

    Args:
        policy_module: Name of the module of the admission policy.
        with_action: Whether an action tier takes part.
    """
    parts = _ALWAYS + _WITH_ACTION if with_action else _ALWAYS
    files = {path for part in parts for path in files_of(_ROOT / part)}
    files |= _own_files(policy_module)
    left_out = [_ROOT / part for part in _NOT]
    return digest_of(
        (f for f in files if not any(f == part or part in f.parents for part in left_out)), _ROOT
    )


def _own_files(module: str) -> set[Path]:
    """The policy's file and those of its package that it is made of."""
    found: set[Path] = set()
    wanted = [module]
    while wanted:
        path = _ROOT / (wanted.pop().replace(".", "/") + ".py")
        if path in found or not path.is_file():
            continue
        found.add(path)
        for node in ast.walk(ast.parse(path.read_bytes())):
            module_of = node.module or "" if isinstance(node, ast.ImportFrom) else ""
            if module_of.startswith(f"{_ADMISSION}."):
                wanted.append(module_of)
    return found
