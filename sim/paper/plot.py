"""The one place that loads matplotlib, for a machine without a screen."""

from __future__ import annotations

import sys
from typing import Any


def pyplot() -> Any:
    """`matplotlib.pyplot`; ends the program with the install command if it is not there."""
    try:
        import matplotlib as mpl
    except ModuleNotFoundError:
        sys.exit('error: matplotlib is not installed; run: pip install -e ".[paper]"')
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    return plt
