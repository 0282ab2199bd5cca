"""The options with which the server and its commands take a configuration."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_config_options(parser: argparse.ArgumentParser) -> None:
    """Declare `--config` and `--set`, which `server.config.load` takes."""
    parser.add_argument("--config", type=Path, metavar="FILE", help="TOML configuration")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="SECTION.KEY=VALUE",
        help="change one setting, for example --set admission.cap=8; may be repeated",
    )
