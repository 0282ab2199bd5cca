"""Prints `name==lowest` for each run-time dependency in pyproject.toml, for pip's -r."""

from __future__ import annotations

import re
from pathlib import Path

import tomllib


def main() -> None:
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    for requirement in project["dependencies"]:
        found = re.fullmatch(r"([\w.-]+)>=([\d.]+),<[\d.]+", requirement)
        if found is None:
            raise SystemExit(f"{requirement!r} in pyproject.toml is not name>=low,<high")
        name, lowest = found.groups()
        print(f"{name}=={lowest}.*")


if __name__ == "__main__":
    main()
