from __future__ import annotations

from pathlib import Path

import pytest

from server.worker.factory import FactoryError, build


@pytest.mark.parametrize(
    ("path", "options", "message"),
    [
        ("no.such.module:X", {}, "cannot import no.such.module"),
        ("no.such.module:X", {}, "on PYTHONPATH, or in the folder that the server is started from"),
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


def test_a_module_that_lacks_another_is_not_said_to_be_missing_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "policy_that_needs_more.py").write_text("import no_such_dependency\n")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(FactoryError, match="no_such_dependency") as caught:
        build("policy_that_needs_more:make", {})
    assert "PYTHONPATH" not in str(caught.value)
