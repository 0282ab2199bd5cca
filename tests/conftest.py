"""Settings for every test, and a check that required tests did run.

A test that is skipped passes silently. CI sets ROBOT_SDK_REQUIRED_MARKERS="sim gl vllm", and a run
in which no test with one of these markers passed then ends in failure.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest
from hypothesis import settings

# No test fails for being slow. CI draws the same examples each time; elsewhere they vary.
settings.register_profile("default", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") == "true" else "default")

_passed_by_marker: Counter[str] = Counter()


def _required_markers() -> list[str]:
    return os.environ.get("ROBOT_SDK_REQUIRED_MARKERS", "").split()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.when == "call" and report.passed:
        _passed_by_marker.update(marker.name for marker in item.iter_markers())
    return report


def pytest_sessionfinish(session, exitstatus):
    if exitstatus == pytest.ExitCode.OK and any(
        _passed_by_marker[name] == 0 for name in _required_markers()
    ):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter):
    for name in _required_markers():
        passed = _passed_by_marker[name]
        terminalreporter.write_line(
            f"required marker {name!r}: {passed} tests passed" + ("" if passed else " - MISSING"),
            red=not passed,
        )
