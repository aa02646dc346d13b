"""The one place for the version and for the range of torch minors; the build reads it too."""

from __future__ import annotations

__version__ = "0.1.0"

OLDEST_TORCH = (2, 11)
NEWEST_TORCH = (2, 14)

# The same range as pip understands it.
TORCH_REQUIREMENT = f"torch>={OLDEST_TORCH[0]}.{OLDEST_TORCH[1]},<{NEWEST_TORCH[0]}.{NEWEST_TORCH[1] + 1}"
