"""The tests of this folder share the modules beside them: sample reports, scripts, a world to run them in."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.insert(0, str(Path(__file__).parent))

if TYPE_CHECKING:
    from plugin_world import PluginWorld


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> PluginWorld:
    """An empty project, to run pytest in with leakguard's plugin."""
    from plugin_world import PluginWorld

    return PluginWorld(pytester, monkeypatch)
