"""The pytest plugin: limits on tensor memory for tests, as markers, fixtures and options.

    @pytest.mark.limit_gpu_leaks("0 B")
    def test_training_step(model): ...

Loaded by pytest in every project that has leakguard installed, so it imports neither torch nor the native
modules until a test is checked. What the hooks do is in leakguard.testing, a file for each part of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from leakguard.testing.limits import marker_help
from leakguard.testing.plugin import LeakguardPlugin
from leakguard.testing.settings import Settings, add_options

if TYPE_CHECKING:
    from leakguard.guard import Guard
    from leakguard.testing.fixture import GpuLeaks

NAME = "leakguard-session"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declares the options."""
    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Names the markers and begins the session's state."""
    for line in marker_help():
        config.addinivalue_line("markers", line)
    config.pluginmanager.register(LeakguardPlugin(config, Settings.of(config)), NAME)


@pytest.fixture
def gpu_leaks(request: pytest.FixtureRequest) -> GpuLeaks:
    """Assertions on memory to make inside a test: no_growth(), assert_no_growth(fn, steps=20),
    assert_released(fn)."""
    from leakguard.testing.fixture import GpuLeaks

    return GpuLeaks(_plugin(request.config).checking_session().accepts(request.node))


@pytest.fixture
def leakguard_guard(request: pytest.FixtureRequest) -> Iterator[Guard]:
    """The leakguard.Guard that watches during this test; for tests that look at its report."""
    from leakguard.testing.fixture import guard_for_test

    yield from guard_for_test(_plugin(request.config).checking_session())


def _plugin(config: pytest.Config) -> LeakguardPlugin:
    plugin = config.pluginmanager.get_plugin(NAME)
    assert isinstance(plugin, LeakguardPlugin)
    return plugin
