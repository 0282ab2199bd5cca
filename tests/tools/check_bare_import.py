"""Run by Python in an environment that holds the wheel alone: what is importable, and how big."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

MUST_BE_ABSENT = ("torch", "mujoco", "vllm", "libero", "matplotlib", "server", "sim", "tests")


def main() -> None:
    present = [name for name in MUST_BE_ABSENT if importlib.util.find_spec(name) is not None]
    if present:
        sys.exit(f"importable beside the bare SDK, and must not be: {', '.join(present)}")

    import robot_sdk

    folder = Path(robot_sdk.__file__).parent
    site_packages = folder.parent
    if not (folder / "py.typed").is_file():
        sys.exit("the wheel lacks robot_sdk/py.typed: type checkers would ignore the SDK")
    if not list((folder / "api" / "v1").glob("*.pyi")):
        sys.exit("the wheel lacks robot_sdk/api/v1/*.pyi: the messages would have no types")
    own = sum(file.stat().st_size for file in folder.rglob("*") if file.suffix != ".pyc")
    whole = sum(
        file.stat().st_size
        for package in site_packages.iterdir()
        if not package.name.startswith(("pip", "setuptools"))
        for file in (package.rglob("*") if package.is_dir() else (package,))
    )
    print(
        f"robot_sdk {robot_sdk.__version__}: {own / 1e6:.1f} MB, "
        f"with its dependencies {whole / 1e6:.0f} MB installed, {len(sys.modules)} modules imported"
    )


if __name__ == "__main__":
    main()
