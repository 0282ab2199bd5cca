"""The product's side: `robot_sdk` as a robot uses it, against `python -m server`."""

from __future__ import annotations

from _support_load import PROMPT, Sample
from _support_process import Child


def product_server(delay_s, per_item_s) -> tuple[Child, str]:
    raise NotImplementedError
