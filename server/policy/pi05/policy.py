"""π0.5 as a policy of this server."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from robot_sdk.clock import SYSTEM_CLOCK, Clock
from robot_sdk.errors import (
    BadModelOutputError,
    InvalidArgumentError,
    ObservationMismatchError,
)
from robot_sdk.spec import PolicySpec
from server.policy.interface import PolicyInput, PolicyOutcome, PolicyOutput
from server.policy.pi05.bucket import Shape
from server.policy.pi05.checkpoint import load_model
from server.policy.pi05.config import Pi05Config
from server.policy.pi05.normalisation import Normaliser, Quantity, identity, load_normaliser
from server.policy.pi05.options import Pi05Options
from server.policy.pi05.pixels import check_picture
from server.policy.pi05.prompt import Tokenizer, encode_prompt, render_prompt
from server.policy.pi05.prompt_encoder import ByteEncoder, PromptEncoder
from server.policy.pi05.random_weights import random_model
from server.policy.pi05.recipe import Recipe, load_recipe
from server.policy.pi05.runner import Row, Runner

_log = logging.getLogger(__name__)

#: Buckets on a GPU if the options name none.
_GPU_BUCKETS = (1, 2, 4, 8, 16, 32, 64)

#: Most threads on a CPU if the options name no number.
_MAX_OWN_THREADS = 8


class Pi05Policy:
    """Observations in, chunks in the robot's units out: a `server.policy.interface.Policy`.

    One robot's bad observation, or a bad answer of the model for it, gives that robot an error in
    its place; the others of the batch get their chunks.

    Args:
        runner: The model.
        recipe: How its checkpoint is used.
        tokenizer: For prompts.
        state, action: Normalisers, of the recipe's widths.
        action_width: Numbers per action row inside the model.
    """

    def __init__(
        self,
        runner: Runner,
        recipe: Recipe,
        tokenizer: PromptEncoder,
        state: Normaliser,
        action: Normaliser,
        action_width: int,
    ) -> None:
        self._runner = runner
        self._recipe = recipe
        self._tokenizer = tokenizer
        self._state = state
        self._action = action
        self._action_width = action_width
        self._spec = recipe.spec()
        self.device = "cpu"
        self.dtype = "float32"

    @classmethod
    def load(cls, options: Pi05Options, clock: Clock = SYSTEM_CLOCK) -> Pi05Policy:
        """Read everything and warm up.

        Raises:
            InvalidArgumentError: A file, a weight or an option is missing or wrong, by name.
        """
        recipe, config = load_recipe(options.recipe), options.size
        if options.num_flow_steps:
            recipe = replace(recipe, num_flow_steps=options.num_flow_steps)
        _check_widths(recipe, config)
        device, dtype = _place(options)
        num_threads = options.num_threads or _own_num_threads(device)
        if num_threads:
            torch.set_num_threads(num_threads)
        tokenizer = _tokenizer(options)
        state, action = (
            _normaliser(options, recipe, "state"),
            _normaliser(options, recipe, "action"),
        )
        if options.random_weights:
            _log.warning("pi05 runs with random weights: its answers mean nothing")
            model = random_model(config, device, dtype, options.random_seed)
        else:
            model = load_model(Path(options.checkpoint), config, device, dtype)
        is_cuda = device.type == "cuda"
        buckets = options.batch_buckets or (_GPU_BUCKETS if is_cuda else ())
        runner = Runner(
            model,
            Shape(len(recipe.cameras), recipe.max_prompt_tokens, recipe.horizon),
            rotate_180=[camera.rotate_180 for camera in recipe.cameras],
            antialias=recipe.resize_antialias,
            num_steps=recipe.num_flow_steps,
            buckets=buckets,
            prefix_batch=options.prefix_batch,
            use_graphs=is_cuda and options.cuda_graphs,
            compile_model=options.compile,
            clock=clock,
        )
        runner.warm_up([size for size in buckets or (1,) if size <= options.warm_batch])
        policy = cls(runner, recipe, tokenizer, state, action, config.action_width)
        policy.device = torch.cuda.get_device_name(device) if is_cuda else str(device)
        policy.dtype = str(dtype).removeprefix("torch.")
        if options.random_weights:
            note = "Random weights." if options.tokenizer else "Random weights, prompts as bytes."
            policy._spec = replace(policy._spec, stand_in=True, note=note)
        return policy

    @property
    def spec(self) -> PolicySpec:
        return self._spec

    @property
    def num_flow_steps(self) -> int:
        """Euler steps of one inference."""
        return self._recipe.num_flow_steps

    def infer(self, batch: Sequence[PolicyInput]) -> Sequence[PolicyOutcome]:
        """One outcome per input, in order. Without a noise seed, seed 0 is used.

        Raises:
            torch.cuda.OutOfMemoryError: There is no memory for this batch; the next may fit.
        """
        outcomes: list[PolicyOutcome | None] = []
        rows: list[Row] = []
        for item in batch:
            try:
                rows.append(self._row(item))
                outcomes.append(None)
            except InvalidArgumentError as error:
                outcomes.append(error)
        answers = iter(self._answer(rows))
        return [next(answers) if outcome is None else outcome for outcome in outcomes]

    def _row(self, item: PolicyInput) -> Row:
        pictures = []
        for camera in self._recipe.cameras:
            picture = item.images.get(camera.key)
            check_picture(camera.key, picture, camera.size)
            assert picture is not None
            pictures.append(picture.astype(np.uint8, copy=False))
        state = self._read_state(item) if self._recipe.state_in_prompt else None
        text = render_prompt(self._recipe.prompt_template, item.instruction, state)
        return Row(
            pictures=tuple(pictures),
            tokens=encode_prompt(
                self._tokenizer, text, self._recipe.prompt_end, self._recipe.max_prompt_tokens
            ),
            noise=self._noise(item),
        )

    def _read_state(self, item: PolicyInput) -> NDArray[np.float32]:
        parts = []
        for part in self._recipe.state:
            values = item.tensors.get(part.key)
            if values is None or values.shape != (part.width,) or values.dtype.kind not in "fiu":
                raise ObservationMismatchError(
                    f"{part.key} is missing or has another shape or dtype",
                    field=part.key,
                    value="nothing" if values is None else f"{values.dtype} {values.shape}",
                    allowed=(f"float32 ({part.width},)",),
                )
            if not np.isfinite(values).all():
                raise InvalidArgumentError(
                    f"{part.key} holds values that are not finite",
                    field=part.key,
                    value=values,
                    allowed=("finite numbers",),
                )
            parts.append(values)
        return self._state.normalise(np.concatenate(parts))

    def _noise(self, item: PolicyInput) -> NDArray[np.float32]:
        shape = (self._recipe.horizon, self._action_width)
        generator = np.random.default_rng((item.noise_seed or 0, item.sequence))
        return generator.standard_normal(shape, dtype=np.float32)

    def _answer(self, rows: Sequence[Row]) -> list[PolicyOutput | BadModelOutputError]:
        if not rows:
            return []
        try:
            result = self._runner.run(rows)
        except torch.cuda.OutOfMemoryError:
            # The host answers the batch; what it left behind must not be in the next one's way.
            torch.cuda.empty_cache()
            raise
        return [
            self._output(actions, result.vision_s, result.prefill_s, result.denoise_s)
            for actions in result.actions
        ]

    def _output(
        self, actions: NDArray[np.float32], vision_s: float, prefill_s: float, denoise_s: float
    ) -> PolicyOutput | BadModelOutputError:
        # Before limits are applied: they would turn an infinity into an action.
        if not np.isfinite(actions).all():
            row, column = np.argwhere(~np.isfinite(actions))[0]
            return BadModelOutputError(
                "the model produced numbers that are not finite",
                field="actions",
                value=f"{actions[row, column]} in row {row}, column {column}",
                allowed=("finite numbers",),
            )
        chunk = self._action.restore(actions[:, : self._action.width])
        if self._recipe.clip_actions:
            chunk = np.clip(chunk, self._spec.lower_limits(), self._spec.upper_limits())
        return PolicyOutput(chunk, vision_s, prefill_s, denoise_s)


def _normaliser(options: Pi05Options, recipe: Recipe, name: Quantity) -> Normaliser:
    width = recipe.state_width if name == "state" else len(recipe.action)
    if options.random_weights or (name == "state" and not recipe.state_in_prompt):
        return identity(width)
    return load_normaliser(
        Path(options.stats), name, recipe.normalisation, width, recipe.normalisation_epsilon
    )


def _check_widths(recipe: Recipe, config: Pi05Config) -> None:
    if len(recipe.action) > config.action_width:
        raise InvalidArgumentError(
            "the recipe's action is wider than the model's",
            field="recipe: action",
            value=len(recipe.action),
            allowed=(f"1 to {config.action_width}",),
        )


def _tokenizer(options: Pi05Options) -> PromptEncoder:
    vocabulary_size = options.size.vocabulary_size
    if options.tokenizer:
        return Tokenizer(Path(options.tokenizer), vocabulary_size)
    return ByteEncoder(vocabulary_size)


def _own_num_threads(device: torch.device) -> int:
    """Threads where the options name no number; 0 leaves torch's choice.

    Torch takes every core. Its threads wait for each other by spinning, so that beside the server
    and its other workers one inference then takes many times as long.
    """
    if device.type != "cpu" or "OMP_NUM_THREADS" in os.environ:
        return 0
    return max(1, min(len(os.sched_getaffinity(0)) // 2, _MAX_OWN_THREADS))


def _place(options: Pi05Options) -> tuple[torch.device, torch.dtype]:
    name = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
        if device.type == "cuda":
            # Streams, events and graphs are those of the current device, not of the model's.
            torch.cuda.set_device(device)
    except (RuntimeError, AssertionError) as error:
        raise InvalidArgumentError(
            "there is no such device here",
            field="device",
            value=name,
            allowed=("cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))),
        ) from error
    default = "bfloat16" if device.type == "cuda" else "float32"
    dtype: torch.dtype = getattr(torch, options.dtype or default)
    return device, dtype
