"""Examples are no package; they are imported from their folder, as they import each other."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], ModuleType]]:
    """Loads an example by the name of its file without ".py"."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(EXAMPLES))

    def load(name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        return module

    yield load
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) is not None and (
            EXAMPLES in Path(str(sys.modules[name].__file__)).parents
        ):
            del sys.modules[name]
