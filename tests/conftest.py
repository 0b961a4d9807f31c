"""Fixtures and hooks of every test run."""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("fixed", derandomize=True, deadline=None, max_examples=50)
# For another version of Python: version-dependent behavior shows in any example.
settings.register_profile("few", settings.get_profile("fixed"), max_examples=5)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell lets background processes ignore Ctrl-C, and the commands that tests start would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The Spark JVMs of tests run little code often: the second compiler does not pay off.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

SLOW_TIMEOUT_S = 1200


class Durations:
    """Appends the seconds of each test to `file`; one table can then show the tests of several runs."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.seconds: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] += report.duration

    def pytest_sessionfinish(self) -> None:
        with self.file.open("a") as file:
            file.writelines(f"{seconds:.2f} {test}\n" for test, seconds in self.seconds.items())


def pytest_configure(config: pytest.Config) -> None:
    file = os.environ.get("MOLDAU_TEST_DURATIONS")
    if file and not hasattr(config, "workerinput"):  # an xdist worker reports to the run that started it
        config.pluginmanager.register(Durations(Path(file)), "moldau-durations")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that kills brokers thirty times or starts a JVM may take longer than the time-out of pyproject.toml."""
    for item in items:
        if any(item.get_closest_marker(name) for name in ("slow", "java", "foreign")):
            item.add_marker(pytest.mark.timeout(SLOW_TIMEOUT_S))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):
    """CI installs all requirements of tests, so a skipped test is a failed test there."""
    outcome = yield
    report = outcome.get_result()
    if report.skipped and os.environ.get("MOLDAU_NO_SKIP") and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped where nothing may be skipped: {report.longrepr}"
