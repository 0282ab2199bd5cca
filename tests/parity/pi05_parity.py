"""Our π0.5 against lerobot's, same random weights, same inputs. tests/parity/README.md says how.

Needs an environment of its own: lerobot's pins exclude vLLM. Run it from the repository:

    PYTHONPATH=. python tests/parity/pi05_parity.py --json parity.json --golden golden.npz
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.metadata
import json
import os
import platform
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import lerobot.policies.pi05.modeling_pi05 as theirs
import numpy as np
import torch
from lerobot.configs.types import FeatureType, PolicyFeature
from lerobot.lerobot_types import TransitionKey
from lerobot.policies.common.vla_utils import resize_with_pad_torch
from lerobot.policies.pi05.configuration_pi05 import PI05Config
from lerobot.policies.pi05.processor_pi05 import Pi05PrepareStateTokenizerProcessorStep
from lerobot.processor import NormalizerProcessorStep, UnnormalizerProcessorStep
from safetensors.torch import save_file

from server.policy.pi05.checkpoint import load_model
from server.policy.pi05.config import PUBLIC, GemmaConfig, Pi05Config, VisionConfig
from server.policy.pi05.model import Pi05Model
from server.policy.pi05.normalisation import METHODS, load_normaliser
from server.policy.pi05.pixels import resize_with_pad
from server.policy.pi05.prompt import render_prompt
from server.policy.pi05.random_weights import draw_weight, random_model
from server.policy.pi05.recipe import load_recipe
from server.policy.pi05.weight_names import our_name, public_name

SEED = 20
HORIZON = 10
NUM_CAMERAS = 2
NUM_TOKENS = 24
LIMIT = 1e-4
GOLDEN_BATCH = 4

#: Small in every direction that can be small: lerobot fixes the width inside the picture tower's
#: feed-forward part and the widths are all different, so that a mix-up cannot pass.
SMALL = Pi05Config(
    vision=VisionConfig(image_px=56, patch_px=14, width=32, depth=3, mlp_width=4304, num_heads=4),
    prefix=GemmaConfig(width=64, depth=4, mlp_width=128, num_heads=8, num_kv_heads=1, head_dim=16),
    expert=GemmaConfig(width=48, depth=4, mlp_width=96, num_heads=8, num_kv_heads=1, head_dim=16),
    vocabulary_size=512,
)

#: The widths of the public model, and few of its layers: the whole one would need 30 GB here.
WIDE = dataclasses.replace(
    PUBLIC,
    vision=dataclasses.replace(PUBLIC.vision, depth=2),
    prefix=dataclasses.replace(PUBLIC.prefix, depth=2),
    expert=dataclasses.replace(PUBLIC.expert, depth=2),
    vocabulary_size=512,
)


@dataclass(frozen=True)
class Inputs:
    """Pictures (B, cameras, px, px, 3) uint8, tokens and mask (B, T), noise (B, H, 32)."""

    pictures: np.ndarray
    tokens: np.ndarray
    mask: np.ndarray
    noise: np.ndarray


def make_inputs(config: Pi05Config, batch: int) -> Inputs:
    """Random inputs; the prompts of a batch have different lengths."""
    rng = np.random.default_rng((SEED, batch))
    side = config.vision.image_px
    lengths = rng.integers(5, NUM_TOKENS + 1, size=batch)
    mask = np.arange(NUM_TOKENS)[None, :] < lengths[:, None]
    tokens = rng.integers(3, config.vocabulary_size, size=(batch, NUM_TOKENS))
    return Inputs(
        rng.integers(0, 256, size=(batch, NUM_CAMERAS, side, side, 3), dtype=np.uint8),
        np.where(mask, tokens, 0),
        mask,
        rng.standard_normal((batch, HORIZON, config.action_width), dtype=np.float32),
    )


def lerobot_policy(ours: Pi05Config) -> Any:
    """lerobot's policy at our sizes, some of which its constructor fixes."""
    sizes = {"gemma_2b": ours.prefix, "gemma_300m": ours.expert}

    def gemma(variant: str) -> Any:
        size = sizes[variant]
        return theirs.GemmaConfig(
            width=size.width,
            depth=size.depth,
            mlp_dim=size.mlp_width,
            num_heads=size.num_heads,
            num_kv_heads=size.num_kv_heads,
            head_dim=size.head_dim,
        )

    real = theirs.CONFIG_MAPPING

    def paligemma() -> Any:
        config = real["paligemma"]()
        config.vision_config.hidden_size = ours.vision.width
        config.vision_config.num_hidden_layers = ours.vision.depth
        config.vision_config.num_attention_heads = ours.vision.num_heads
        config.vision_config.patch_size = ours.vision.patch_px
        return config

    def expert(**fields: Any) -> Any:
        fields["vocab_size"] = ours.vocabulary_size
        return real["gemma"](**fields)

    theirs.get_gemma_config = gemma
    theirs.CONFIG_MAPPING = {"paligemma": paligemma, "gemma": expert}
    side = ours.vision.image_px
    config = PI05Config(
        device="cpu",
        dtype="float32",
        chunk_size=HORIZON,
        n_action_steps=HORIZON,
        max_action_dim=ours.action_width,
        image_resolution=(side, side),
        # As in the public LIBERO checkpoints: a third view that is never there.
        empty_cameras=1,
    )
    config.input_features = {
        f"observation.images.image{index}": PolicyFeature(FeatureType.VISUAL, (3, side, side))
        for index in range(NUM_CAMERAS)
    }
    config.output_features = {"action": PolicyFeature(FeatureType.ACTION, (ours.action_width,))}
    policy = theirs.PI05Policy(config).eval()
    paligemma_model = policy.model.paligemma_with_expert.paligemma.model
    paligemma_model.multi_modal_projector.linear = torch.nn.Linear(
        ours.vision.width, ours.prefix.width
    )
    embedding = paligemma_model.language_model.embed_tokens
    paligemma_model.language_model.embed_tokens = type(embedding)(
        ours.vocabulary_size, ours.prefix.width, 0, embedding.scalar_embed_scale
    )
    policy.model.paligemma_with_expert.paligemma.lm_head = torch.nn.Identity()
    return policy


def fill(policy: Any) -> None:
    """Give lerobot's policy the weights that `random_model` gives ours."""
    with torch.no_grad():
        for name, value in policy.named_parameters():
            try:
                public = public_name(our_name(name))
            except ValueError:
                public = name
            value.copy_(torch.from_numpy(draw_weight(public, tuple(value.shape), SEED)))


def their_chunk(policy: Any, inputs: Inputs, num_steps: int) -> np.ndarray:
    """Normalised actions of lerobot's policy."""
    batch = {
        f"observation.images.image{index}": torch.from_numpy(inputs.pictures[:, index])
        .permute(0, 3, 1, 2)
        .float()
        / 255.0
        for index in range(NUM_CAMERAS)
    }
    batch["observation.language.tokens"] = torch.from_numpy(inputs.tokens)
    batch["observation.language.attention_mask"] = torch.from_numpy(inputs.mask)
    chunk = policy.predict_action_chunk(
        batch, noise=torch.from_numpy(inputs.noise), num_steps=num_steps
    )
    return np.asarray(chunk.detach().numpy())


def our_chunk(model: Pi05Model, inputs: Inputs, num_steps: int) -> np.ndarray:
    """Normalised actions of ours."""
    batch, horizon = inputs.noise.shape[:2]
    pictures = torch.from_numpy(inputs.pictures).permute(0, 1, 4, 2, 3).float() / 255.0 * 2.0 - 1.0
    seen_mask = torch.ones(batch, NUM_CAMERAS * model.config.vision.num_patches, dtype=torch.bool)
    prefix_mask = torch.cat((seen_mask, torch.from_numpy(inputs.mask)), dim=1)
    mask = torch.cat((prefix_mask, torch.ones(batch, horizon, dtype=torch.bool)), dim=1)
    cache = model.new_cache(batch, mask.shape[1])
    with torch.inference_mode():
        model.read(model.see(pictures), torch.from_numpy(inputs.tokens), prefix_mask, cache)
        noise = torch.from_numpy(inputs.noise)
        return model.act(noise, model.modulation(num_steps), cache, mask).numpy()


def compare_resizing() -> float:
    """Largest difference of the two programs' resized and padded pictures."""
    worst = 0.0
    for height, width in ((40, 70), (256, 256), (200, 120)):
        picture = torch.from_numpy(
            np.random.default_rng(SEED).random((3, height, width), dtype=np.float32)
        )
        side = SMALL.vision.image_px
        mine = resize_with_pad(picture[None], side, antialias=False)[0]
        other = resize_with_pad_torch(picture.permute(1, 2, 0)[None], side, side)
        worst = max(worst, float((mine - other[0].permute(2, 0, 1)).abs().max()))
    return worst


def compare_processing(num_states: int = 2000) -> tuple[int, float]:
    """Prompts that differ, and the largest difference of actions brought back to their units."""
    rng = np.random.default_rng(SEED)
    recipe = load_recipe("libero-lerobot")
    width = {"observation.state": recipe.state_width, "action": len(recipe.action)}
    stats = {}
    for key, size in width.items():
        low, spread = rng.normal(size=size), rng.uniform(0.5, 2.0, size=size)
        marks = {"q01": low, "q99": low + spread, "mean": low + spread / 2, "std": spread / 4}
        stats[key] = {name: values.astype(np.float32).tolist() for name, values in marks.items()}
    features = {
        "observation.state": PolicyFeature(FeatureType.STATE, (width["observation.state"],)),
        "action": PolicyFeature(FeatureType.ACTION, (width["action"],)),
    }
    states = rng.normal(size=(num_states, width["observation.state"])).astype(np.float32)
    actions = rng.normal(size=(num_states, width["action"])).astype(np.float32)
    num_differing, worst = 0, 0.0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "stats.json"
        path.write_text(json.dumps(stats))
        for method in METHODS:
            mode = {"quantile": "QUANTILES", "mean_std": "MEAN_STD"}[method]
            settings = {
                "features": features,
                "norm_map": {"STATE": mode, "ACTION": mode},
                "stats": stats,
            }
            transition = {
                TransitionKey.OBSERVATION: {"observation.state": torch.from_numpy(states)},
                TransitionKey.COMPLEMENTARY_DATA: {"task": ["pick_up the\nmilk "] * num_states},
                TransitionKey.ACTION: torch.from_numpy(actions),
            }
            told = Pi05PrepareStateTokenizerProcessorStep()(
                NormalizerProcessorStep(**settings)(transition)
            )
            expected = told[TransitionKey.COMPLEMENTARY_DATA]["task"]
            mine = load_normaliser(path, "state", method, len(states[0]), 1e-8)
            found = [
                render_prompt(recipe.prompt_template, "pick_up the\nmilk ", state)
                for state in mine.normalise(states)
            ]
            num_differing += sum(a != b for a, b in zip(expected, found, strict=True))
            back = UnnormalizerProcessorStep(**settings)(transition)[TransitionKey.ACTION]
            restored = load_normaliser(path, "action", method, len(actions[0]), 1e-8)
            worst = max(worst, float(np.abs(restored.restore(actions) - back.numpy()).max()))
    return num_differing, worst


def loaded_from_their_file(policy: Any, config: Pi05Config) -> Pi05Model:
    """Our model from a file that holds lerobot's state as lerobot names it."""
    state = {name: value.contiguous() for name, value in policy.state_dict().items()}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        save_file(state, path)
        return load_model(path, config, torch.device("cpu"), torch.float32)


def compare(
    policy: Any, model: Pi05Model, batches: Sequence[int], show: Callable[[str], None]
) -> list[dict[str, Any]]:
    """One row per batch size and number of steps."""
    rows = []
    for batch in batches:
        inputs = make_inputs(model.config, batch)
        for num_steps in (5, 10):
            expected = their_chunk(policy, inputs, num_steps)
            difference = float(np.abs(our_chunk(model, inputs, num_steps) - expected).max())
            rows.append(
                {
                    "batch": batch,
                    "num_steps": num_steps,
                    "largest_difference": difference,
                    "largest_action": float(np.abs(expected).max()),
                    "std_of_actions": float(expected.std()),
                }
            )
            show(json.dumps(rows[-1]))
    return rows


def write_golden(policy: Any, path: Path) -> None:
    """Inputs and lerobot's chunks, without weights: those come from the seed."""
    inputs = make_inputs(SMALL, GOLDEN_BATCH)
    np.savez_compressed(
        path,
        seed=np.int64(SEED),
        pictures=inputs.pictures,
        tokens=inputs.tokens.astype(np.int16),
        mask=inputs.mask,
        noise=inputs.noise,
        chunk_5=their_chunk(policy, inputs, 5),
        chunk_10=their_chunk(policy, inputs, 10),
    )


def main() -> int:
    """0 if every difference is within the limit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the result there")
    parser.add_argument("--golden", type=Path, help="write inputs and lerobot's chunks there")
    parser.add_argument(
        "--wide", action="store_true", help="the public widths instead, two layers deep; 8 GB"
    )
    arguments = parser.parse_args()

    config, batches = (WIDE, (1,)) if arguments.wide else (SMALL, (1, 4, 16))
    policy = lerobot_policy(config)
    fill(policy)
    device = torch.device("cpu")
    rows = compare(policy, random_model(config, device, torch.float32, SEED), batches, print)
    inputs = make_inputs(config, batches[-1])
    from_file = our_chunk(loaded_from_their_file(policy, config), inputs, 5)
    file_difference = float(np.abs(from_file - their_chunk(policy, inputs, 5)).max())
    resizing = compare_resizing()
    num_prompts, restoring = compare_processing()
    worst = max(file_difference, *(row["largest_difference"] for row in rows))
    result = {
        "versions": {
            "python": platform.python_version(),
            **{name: importlib.metadata.version(name) for name in ("lerobot", "torch")},
            "transformers": importlib.metadata.version("transformers"),
        },
        "rows": rows,
        "largest_difference_loaded_from_their_file": file_difference,
        "largest_difference_of_resizing": resizing,
        "prompts_that_differ_of_4000": num_prompts,
        "largest_difference_of_restored_actions": restoring,
        "largest_difference": worst,
        "limit": LIMIT,
    }
    print(json.dumps({key: value for key, value in result.items() if key != "rows"}))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    if arguments.golden is not None and not arguments.wide:
        write_golden(policy, arguments.golden)
    return 0 if max(worst, resizing, restoring) <= LIMIT and num_prompts == 0 else 1


if __name__ == "__main__":
    raise SystemExit(main())
