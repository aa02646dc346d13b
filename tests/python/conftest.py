"""The tests of this folder share the modules beside them: sample reports, scripts, a world to run them in."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
