from __future__ import annotations

import sys

import pytest

from robot_sdk.errors import MissingExtraError
from server.pillow import pillow_image


def test_without_pillow_the_error_says_what_needs_it_and_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)

    with pytest.raises(MissingExtraError, match=r"^raw pictures need Pillow.*\[server\]"):
        pillow_image("raw pictures need Pillow")
