from __future__ import annotations

import argparse
from pathlib import Path

from server.config import load
from sim.cli.run import server_settings


def test_a_folder_of_any_name_reaches_the_server_whole() -> None:
    args = argparse.Namespace(brain_delay_s=0.0, policy_delay_ms=0.0, cap=None)
    folder = Path('out/say "hi" \\ 机器')

    config = load(None, server_settings(args, folder))

    assert config.telemetry.run_folder == str(folder)
