"""Train the flow policy on recorded demonstrations (needs torch; running it does not).

    OMP_NUM_THREADS=1 python -m sim.libero.train.train demos.npz --out flow_policy.npz

One CPU thread and about five minutes are enough. Same data, seed and number of steps give the
same checkpoint on the same machine.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robot_sdk.clock import MonotonicClock
from robot_sdk.errors import MissingExtraError
from server.policy.flow.checkpoint import (
    ACTION_DIM,
    DEFAULT_CHECKPOINT,
    NUM_TIME_FEATURES,
    CheckpointMetadata,
    save_checkpoint,
)
from server.policy.flow.features import (
    FEATURE_NAMES,
    FEATURES_VERSION,
    INPUT_WIDTHS,
    NUM_FEATURES,
    compute_features,
)

_HORIZON = 10
_HIDDEN_SIZE = 256
_NUM_BLOCKS = 3
_NUM_FLOW_STEPS = 8
_BATCH_SIZE = 128
_PEAK_LEARNING_RATE = 1e-3
#: Noise on the normalised features, so that the policy bears small errors.
_FEATURE_NOISE = 0.02
#: The average of the weights over the last steps is what is kept.
_AVERAGE_DECAY = 0.999


def main(arguments: list[str] | None = None) -> int:
    """Command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("demos", nargs="+", type=Path, help="files made by the collect command")
    parser.add_argument("--out", type=Path, default=DEFAULT_CHECKPOINT)
    parser.add_argument("--steps", type=int, default=30_000, help="gradient steps")
    parser.add_argument("--seed", type=int, default=0)
    given = sys.argv[1:] if arguments is None else arguments
    options = parser.parse_args(given)

    features, chunks, num_demos = load_demonstrations(options.demos)
    print(f"{num_demos} demonstrations, {len(features)} steps", flush=True)
    arrays, loss = fit(features, chunks, options.steps, options.seed)
    names = [path.name for path in options.demos]
    command = ["python", "-m", "sim.libero.train.train", *names]
    command += ["--steps", str(options.steps), "--seed", str(options.seed)]
    metadata = CheckpointMetadata(
        features_version=FEATURES_VERSION,
        feature_names=FEATURE_NAMES,
        horizon=_HORIZON,
        hidden_size=_HIDDEN_SIZE,
        num_blocks=_NUM_BLOCKS,
        num_flow_steps=_NUM_FLOW_STEPS,
        training_command=shlex.join(command),
        seed=options.seed,
        num_demonstrations=num_demos,
        num_transitions=len(features),
        num_training_steps=options.steps,
        final_loss=loss,
    )
    save_checkpoint(options.out, arrays, metadata)
    print(f"{options.out}: {options.out.stat().st_size} bytes, loss {loss:.4f}", flush=True)
    return 0


def load_demonstrations(
    paths: list[Path],
) -> tuple[NDArray[np.float32], NDArray[np.float32], int]:
    """Features (N, NUM_FEATURES), action chunks (N, horizon, 7) and the number of episodes."""
    features: list[NDArray[np.float32]] = []
    chunks: list[NDArray[np.float32]] = []
    for path in paths:
        with np.load(path, allow_pickle=False) as archive:
            seen = compute_features({name: archive[name] for name in INPUT_WIDTHS})
            actions, episode = archive["actions"], archive["episode"]
        for number in np.unique(episode):
            rows = episode == number
            features.append(seen[rows])
            chunks.append(action_chunks(actions[rows]))
    return np.concatenate(features), np.concatenate(chunks), len(features)


def action_chunks(actions: NDArray[np.float32]) -> NDArray[np.float32]:
    """The next `horizon` actions at every step, (T, horizon, 7); the last action is repeated."""
    index = np.arange(len(actions))[:, None] + np.arange(_HORIZON)
    return actions[np.minimum(index, len(actions) - 1)]


def fit(
    features: NDArray[np.float32], chunks: NDArray[np.float32], num_steps: int, seed: int
) -> tuple[dict[str, NDArray[np.float32]], float]:
    """Arrays of a checkpoint, and the mean loss over the last tenth of the training."""
    torch = _import_torch()
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    feature_mean, feature_std = features.mean(axis=0), features.std(axis=0) + 1e-2
    rows = chunks.reshape(-1, ACTION_DIM)
    action_mean, action_std = rows.mean(axis=0), rows.std(axis=0) + 1e-2
    seen = torch.tensor((features - feature_mean) / feature_std)
    wanted = torch.tensor(((chunks - action_mean) / action_std).reshape(len(chunks), -1))

    network = _make_network(torch)
    parameters = dict(network.named_parameters())
    average = {name: value.detach().clone() for name, value in parameters.items()}
    optimizer = torch.optim.AdamW(network.parameters(), _PEAK_LEARNING_RATE, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, num_steps)
    clock = MonotonicClock()
    start_s = clock.now_s()
    losses: list[float] = []
    report_every = max(1, num_steps // 10)
    for step in range(1, num_steps + 1):
        index = torch.randint(0, len(seen), (_BATCH_SIZE,))
        inputs = seen[index] + _FEATURE_NOISE * torch.randn(_BATCH_SIZE, NUM_FEATURES)
        noise = torch.randn_like(wanted[index])
        time = torch.rand(_BATCH_SIZE, 1)
        path = (1.0 - time) * noise + time * wanted[index]
        angles = time * torch.arange(1, NUM_TIME_FEATURES // 2 + 1) * torch.pi
        embedded = torch.cat([inputs, path, torch.sin(angles), torch.cos(angles)], dim=1)
        loss = ((network(embedded) - (wanted[index] - noise)) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(float(loss.detach()))
        decay = min(_AVERAGE_DECAY, step / (step + 50.0))
        with torch.no_grad():
            for name, value in parameters.items():
                average[name].lerp_(value, 1.0 - decay)
        if step % report_every == 0:
            recent = float(np.mean(losses[-report_every:]))
            elapsed_s = clock.now_s() - start_s
            print(f"step {step} of {num_steps}: loss {recent:.4f}, {elapsed_s:.0f} s", flush=True)
    arrays = {name: value.numpy() for name, value in average.items()}
    arrays |= {
        "feature_mean": feature_mean,
        "feature_std": feature_std,
        "action_mean": action_mean,
        "action_std": action_std,
    }
    return arrays, float(np.mean(losses[-report_every:]))


def _make_network(torch: Any) -> Any:
    """The network of `server.policy.flow.network` in torch, with the same array names."""
    nn = torch.nn
    num_actions = _HORIZON * ACTION_DIM

    class Network(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            num_inputs = NUM_FEATURES + num_actions + NUM_TIME_FEATURES
            self.input = nn.Linear(num_inputs, _HIDDEN_SIZE)
            self.blocks = nn.ModuleList(
                [nn.Linear(_HIDDEN_SIZE, _HIDDEN_SIZE) for _ in range(_NUM_BLOCKS)]
            )
            self.output = nn.Linear(_HIDDEN_SIZE, num_actions)

        def forward(self, inputs: Any) -> Any:
            hidden = nn.functional.silu(self.input(inputs))
            for block in self.blocks:
                hidden = hidden + nn.functional.silu(block(hidden))
            return self.output(hidden)

    return Network()


def _import_torch() -> Any:
    try:
        import torch
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            "training needs torch", hint='install it with: pip install -e ".[sim]" torch'
        ) from error
    return torch


if __name__ == "__main__":
    sys.exit(main())
