"""`import robot_sdk` offers every promised name, and nothing is paid for in advance."""

from __future__ import annotations

import subprocess
import sys

import pytest

import robot_sdk


@pytest.mark.parametrize("name", robot_sdk.__all__)
def test_every_public_name_exists(name: str) -> None:
    assert getattr(robot_sdk, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'conect'"):
        _ = robot_sdk.conect


def test_the_bare_import_loads_neither_grpc_nor_numpy() -> None:
    code = "import sys, robot_sdk; print(sorted({'grpc', 'numpy'} & set(sys.modules)))"

    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )

    assert loaded.stdout.strip() == "[]"
