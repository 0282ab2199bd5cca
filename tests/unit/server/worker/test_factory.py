from __future__ import annotations

import pytest

from server.worker.factory import FactoryError, build


@pytest.mark.parametrize(
    ("path", "options", "message"),
    [
        ("no.such.module:X", {}, "cannot import no.such.module"),
        ("tests.fakes.policies:StepPolic", {}, "did you mean StepPolicy"),
        ("tests.fakes.policies:StepPolicy", {"dely_s": 1}, "unexpected keyword argument"),
        ("tests.fakes.policies:BrokenPolicy", {}, "no such checkpoint"),
    ],
)
def test_a_factory_that_cannot_be_used_says_why_in_one_line(
    path: str, options: dict[str, object], message: str
) -> None:
    with pytest.raises(FactoryError, match=message) as caught:
        build(path, options)
    assert "\n" not in str(caught.value)
