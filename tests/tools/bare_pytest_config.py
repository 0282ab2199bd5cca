"""Prints a pytest.ini with the settings of pyproject.toml, for tests run away from the checkout."""

from __future__ import annotations

from pathlib import Path

import tomllib


def main() -> None:
    with Path("pyproject.toml").open("rb") as file:
        options = tomllib.load(file)["tool"]["pytest"]["ini_options"]
    print("[pytest]")
    for name, value in options.items():
        if name == "addopts":
            print("addopts =", " ".join(_quoted(option) for option in value))
        elif isinstance(value, list):
            print(f"{name} =", *value, sep="\n    ")
        else:
            print(f"{name} = {value}")


def _quoted(option: str) -> str:
    return f'"{option}"' if " " in option else option


if __name__ == "__main__":
    main()
