"""The study's own vLLM 0.17.1, from a folder of its own and without its compiled parts.

tests/tools/fetch_study_engine.sh makes the folder: `vllm/` is the unpacked wheel without its
shared libraries, `dependencies/` what it needs in other versions than the installed vLLM. Torch and
the rest come from the environment. The scheduler is plain Python, so this is enough for it. A
process can hold one version only; start another one for the other.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from robot_sdk.errors import InvalidArgumentError, RobotSdkError
from server.capacity.engine import library
from server.capacity.engine.library import Library

#: Probes of the processor that this version asks torch for and newer torch no longer has.
_CPU_PROBES = (
    "_init_amx",
    "_is_amx_tile_supported",
    "_is_avx2_supported",
    "_is_avx512_bf16_supported",
    "_is_avx512_supported",
    "_is_vnni_supported",
)


def load(folder: Path) -> Library:
    """Put the folder's vLLM in front of an installed one.

    Raises:
        InvalidArgumentError: The folder does not hold vLLM 0.17.1.
        RobotSdkError: This process has imported another vLLM already.
        MissingExtraError: Torch is not installed.
    """
    check_folder(folder)
    if "vllm" in sys.modules:
        raise RobotSdkError("another vLLM is loaded in this process; use a process of its own")
    sys.path[:0] = [str(folder / "vllm"), str(folder / "dependencies")]
    found = library.load()
    if found.version != library.STUDY_VERSION:
        raise InvalidArgumentError(
            "this folder holds another vLLM than the study's",
            field="folder",
            value=found.version,
            allowed=(library.STUDY_VERSION,),
        )
    _run_without_compiled_parts()
    return found


def check_folder(folder: Path) -> None:
    """Look whether a folder has the right shape, without importing anything.

    Raises:
        InvalidArgumentError: It has not.
    """
    source, dependencies = folder / "vllm", folder / "dependencies"
    if not (source / "vllm" / "__init__.py").is_file() or not dependencies.is_dir():
        raise InvalidArgumentError(
            "this folder does not hold the study's vLLM",
            field="folder",
            value=folder,
            hint=f"make one with: tests/tools/fetch_study_engine.sh {folder}",
        )


def _run_without_compiled_parts() -> None:
    import torch

    probes: Any = torch._C._cpu  # noqa: SLF001
    for name in _CPU_PROBES:
        if not hasattr(probes, name):
            setattr(probes, name, lambda *_: True)

    from vllm import platforms
    from vllm.platforms.cpu import CpuPlatform

    # The wheel is the GPU build, which finds no platform on a machine without one. The setter of
    # this version's `current_platform` is this module attribute.
    platforms._current_platform = CpuPlatform()  # noqa: SLF001
