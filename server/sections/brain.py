"""Settings of the brain that every engine has."""

from __future__ import annotations

from dataclasses import dataclass

from server.setting import Options, setting
from server.worker.factory import IMPORTABLE


@dataclass(frozen=True)
class BrainSection:
    """The engine that decides."""

    engine: str = setting(
        "demo-planner",
        "demo-planner needs no weights; vllm hosts the model of [vllm]; openai asks the endpoint "
        "of [openai]; factory is a planner of your own.",
        choices=("demo-planner", "vllm", "openai", "factory"),
    )
    factory: str = setting(
        "",
        'With engine "factory": `module:callable` that returns a server.brain.interface.Planner; '
        + IMPORTABLE
        + ".",
    )
    options: Options = setting({}, "Keyword arguments of the engine's factory.")
    max_running_turns: int = setting(
        16,
        "Turns worked on at once; others wait in order of arrival. With vllm, see "
        "vllm.max_num_seqs instead.",
        minimum=1,
        maximum=1024,
    )
    delay_s: float = setting(
        0.0,
        "Added to every turn to stand for a slower model; reported as modelled.",
        minimum=0.0,
        maximum=3600.0,
    )
    max_output_bytes: int = setting(
        4 * 1024 * 1024, "A turn that writes more is given up.", minimum=1024
    )
