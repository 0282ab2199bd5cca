from __future__ import annotations

from pathlib import Path

import pytest

from sim.code_meaning import files_of
from sim.fleet.replay import code_digest as module

POLICY = "server.core.admission.static_cap"


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A source tree with a registry, two policies and a runner."""
    for name, text in {
        "server/core/registry.py": "def f():\n    return 1\n",
        "server/core/admission/interface.py": "A = 1\n",
        "server/core/admission/static_cap.py": (
            "from server.core.admission.interface import A\n"
            "from server.core.admission.helper import B\n"
        ),
        "server/core/admission/helper.py": "B = 2\n",
        "server/core/admission/aimd.py": "C = 3\n",
        "sim/fleet/replay/runner.py": "D = 4\n",
        "sim/fleet/action.py": "E = 5\n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(module, "_ROOT", tmp_path)
    return tmp_path


def digest(with_action: bool = False) -> str:
    module.code_digest.cache_clear()
    return module.code_digest(POLICY, with_action)


@pytest.mark.parametrize("file", ["server/core/registry.py", "server/core/admission/helper.py"])
def test_code_that_a_run_goes_through_changes_the_digest(tree: Path, file: str) -> None:
    before = digest()
    (tree / file).write_text("X = 9\n")
    assert digest() != before


@pytest.mark.parametrize(
    "file",
    ["server/core/admission/aimd.py", "sim/fleet/replay/runner.py", "sim/fleet/action.py"],
)
def test_code_that_it_does_not_go_through_does_not(tree: Path, file: str) -> None:
    before = digest()
    (tree / file).write_text("X = 9\n")
    assert digest() == before


def test_the_action_tier_counts_where_there_is_one(tree: Path) -> None:
    before = digest(with_action=True)
    (tree / "sim/fleet/action.py").write_text("X = 9\n")
    assert digest(with_action=True) != before


def test_comments_and_docstrings_do_not_count(tree: Path) -> None:
    before = digest()
    (tree / "server/core/registry.py").write_text(
        '"""What it is."""\n\n\ndef f():  # why\n    """Says one."""\n    return 1\n'
    )
    assert digest() == before


def test_every_part_that_is_named_is_there() -> None:
    for part in module._ALWAYS + module._WITH_ACTION:
        assert list(files_of(module._ROOT / part)), part
