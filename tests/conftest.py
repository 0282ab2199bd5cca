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
    # With several test processes the report is all that reaches the one that counts.
    report.markers = sorted({marker.name for marker in item.iter_markers()})
    return report


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable(config, report):
    """A report travels between test processes as UTF-8; what a test logged may not be."""
    return _encodable((yield))


def _encodable(value):
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, dict):
        return {_encodable(key): _encodable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_encodable(item) for item in value)
    return value


def pytest_runtest_logreport(report):
    if report.when == "call" and report.passed:
        _passed_by_marker.update(report.markers)


def pytest_sessionfinish(session, exitstatus):
    is_one_of_several = hasattr(session.config, "workerinput")
    if (
        not is_one_of_several
        and exitstatus == pytest.ExitCode.OK
        and any(_passed_by_marker[name] == 0 for name in _required_markers())
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
