"""Rules about the source that no linter knows: clocks, pickles, and what must not be named."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CLOCK = Path("robot_sdk/clock.py")

CLOCK_MODULES = {"time"}
CLOCK_CALLS = {
    "asyncio.sleep",
    "date.today",
    "datetime.date.today",
    "datetime.datetime.now",
    "datetime.datetime.utcnow",
    "datetime.now",
    "datetime.utcnow",
    "threading.Timer",
}
PICKLE_MODULES = {"cloudpickle", "dill", "joblib", "marshal", "pickle", "shelve"}

# Package registries are found through pip's own configuration; naming one would pin a mirror.
REGISTRY_HOSTS = re.compile(
    r"pypi[.]org|pythonhosted[.]org|download[.]pytorch[.]org|npmjs[.]org|deb[.]debian[.]org"
)
# A path that exists on one machine only. Tests take pytest's tmp_path, examples relative paths.
MACHINE_PATHS = re.compile(r"(?<![\w.}])/(?:work|root|home|tmp|opt)/")
PRIVATE_KEYS = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----")


def _python_files(*folders: str) -> list[Path]:
    files = [file for folder in folders for file in (ROOT / folder).rglob("*.py")]
    generated = ROOT / "robot_sdk/api"
    return sorted(file.relative_to(ROOT) for file in files if generated not in file.parents)


def _text_files() -> Iterator[tuple[Path, str]]:
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in listing.stdout.decode().split("\0"):
        path = ROOT / name
        if not name or not path.is_file():
            continue
        content = path.read_bytes()
        if b"\0" not in content:
            yield Path(name), content.decode("utf-8")


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return ""


def _imported_modules(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name.partition(".")[0] for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.level == 0:
        return [(node.module or "").partition(".")[0]]
    return []


def _passes(call: ast.Call, keyword: str, value: bool) -> bool:
    return any(
        argument.arg == keyword
        and isinstance(argument.value, ast.Constant)
        and argument.value.value is value
        for argument in call.keywords
    )


def clock_faults(source: str) -> list[str]:
    """Where a source reads a clock or sleeps by itself."""
    faults = []
    for node in ast.walk(ast.parse(source)):
        if CLOCK_MODULES.intersection(_imported_modules(node)):
            faults.append(f"line {node.lineno}: imports time")
        if isinstance(node, ast.Call) and _dotted(node.func) in CLOCK_CALLS:
            faults.append(f"line {node.lineno}: calls {_dotted(node.func)}")
    return faults


def pickle_faults(source: str) -> list[str]:
    """Where a source could run code that came in as data."""
    faults = []
    for node in ast.walk(ast.parse(source)):
        for module in PICKLE_MODULES.intersection(_imported_modules(node)):
            faults.append(f"line {node.lineno}: imports {module}")
        if isinstance(node, ast.Call):
            if _passes(node, "allow_pickle", True):
                faults.append(f"line {node.lineno}: allow_pickle=True")
            if _dotted(node.func) == "torch.load" and not _passes(node, "weights_only", True):
                faults.append(f"line {node.lineno}: torch.load without weights_only=True")
    return faults


@pytest.mark.parametrize(
    "source",
    ["import time", "from time import monotonic", "await_ = asyncio.sleep(1)", "datetime.now()"],
)
def test_clock_rule_sees_every_way_to_read_a_clock(source):
    assert clock_faults(source)


@pytest.mark.parametrize(
    "source",
    ["import pickle", "from dill import loads", "np.load(p, allow_pickle=True)", "torch.load(p)"],
)
def test_pickle_rule_sees_every_way_to_load_a_pickle(source):
    assert pickle_faults(source)


def test_only_the_clock_module_reads_a_clock_or_sleeps():
    faults = {
        str(file): found
        for file in _python_files("robot_sdk", "server/core")
        if file != CLOCK and (found := clock_faults((ROOT / file).read_text(encoding="utf-8")))
    }
    assert not faults, "take now_s or a robot_sdk.clock.Clock instead"


def test_nothing_in_sdk_and_server_loads_a_pickle():
    faults = {
        str(file): found
        for file in _python_files("robot_sdk", "server")
        if (found := pickle_faults((ROOT / file).read_text(encoding="utf-8")))
    }
    assert not faults, (
        "use explicit formats: tensors as dtype, shape, bytes; weights as safetensors"
    )


@pytest.mark.parametrize(
    ("pattern", "what"),
    [
        (REGISTRY_HOSTS, "the host of a package registry"),
        (MACHINE_PATHS, "a path of one machine"),
        (PRIVATE_KEYS, "a private key"),
    ],
    ids=["registry hosts", "machine paths", "private keys"],
)
def test_no_file_names(pattern, what):
    faults = [
        f"{file}:{number}: {found.group()}"
        for file, text in _text_files()
        for number, line in enumerate(text.splitlines(), 1)
        if (found := pattern.search(line))
    ]
    assert not faults, f"the repository must not hold {what}"


def test_no_unit_test_sleeps():
    faults = {
        str(file): lines
        for file in _python_files("tests/unit")
        if (
            lines := [
                node.lineno
                for node in ast.walk(ast.parse((ROOT / file).read_text(encoding="utf-8")))
                if isinstance(node, ast.Call) and _dotted(node.func) in ("time.sleep", "sleep")
            ]
        )
    }
    assert not faults, (
        "use robot_sdk.clock.VirtualClock; what needs real time is an integration test"
    )
