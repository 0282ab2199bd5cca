"""What a result was made on."""

from __future__ import annotations

import os
import platform
import sys
from typing import Any


def machine() -> dict[str, Any]:
    """The system, for a result file."""
    return {
        "system": platform.platform(),
        "cpus": os.cpu_count(),
        "byte_order": sys.byteorder,
    }
