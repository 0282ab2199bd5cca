"""A digest of what code means, by which kept results are told from those of other code."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path


def files_of(part: Path) -> Iterator[Path]:
    """The file itself, or a folder's code and the tables and weights beside it."""
    if part.is_file():
        yield part
        return
    for pattern in ("*.py", "*.json", "*.npz"):
        yield from part.rglob(pattern)


def digest_of(files: Iterable[Path], root: Path) -> str:
    """Changes with the meaning of the code, not with its comments, docstrings or layout.

    Args:
        files: Under `root`, in any order. Those that are not Python count as they are.
        root: Names of files count from there.
    """
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(path.relative_to(root).as_posix().encode())
        digest.update(_meaning(path))
    return digest.hexdigest()[:16]


def _meaning(path: Path) -> bytes:
    content = path.read_bytes()
    if path.suffix != ".py":
        return content
    tree = ast.parse(content)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                node.body = node.body[1:]
    return ast.dump(tree).encode()
