from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from robot_sdk.errors import InvalidArgumentError
from server.policy.pi05.checkpoint import load_model
from server.policy.pi05.config import PUBLIC, TINY
from server.policy.pi05.model import Pi05Model
from server.policy.pi05.weight_names import our_name, public_name, unused_shapes
from tests.unit.server.policy.pi05.helpers import CPU, tiny_model

EXPERT_HEAD = "paligemma_with_expert.gemma_expert.lm_head.weight"
EMBEDDING = "paligemma_with_expert.paligemma.model.language_model.embed_tokens.weight"
TIED = "paligemma_with_expert.paligemma.lm_head.weight"


def openpi_state() -> dict[str, Tensor]:
    """What openpi's converter writes: every weight, those that inference does not read, too."""
    state = {public_name(name): value.clone() for name, value in tiny_model().named_parameters()}
    for name, shape in unused_shapes(TINY).items():
        state[name if name == EXPERT_HEAD else public_name(name)] = torch.zeros(shape)
    return state


def lerobot_name(name: str) -> str:
    return "model." + name


def flat_lerobot_name(name: str) -> str:
    return lerobot_name(name).replace("vision_tower.vision_model.", "vision_tower.")


def load(path: Path) -> Pi05Model:
    return load_model(path, TINY, CPU, torch.float32)


def is_the_same(model: Pi05Model) -> bool:
    wanted = dict(tiny_model().named_parameters())
    return all(torch.equal(value, wanted[name]) for name, value in model.named_parameters())


def written(path: Path, state: dict[str, Tensor]) -> Path:
    save_file(state, path)
    return path


@pytest.mark.parametrize("rename", [str, lerobot_name, flat_lerobot_name])
def test_the_names_of_both_projects_give_the_same_model(
    tmp_path: Path, rename: Callable[[str], str]
) -> None:
    state = {rename(name): value for name, value in openpi_state().items()}

    assert is_the_same(load(written(tmp_path / "model.safetensors", state)))


def test_every_weight_has_a_public_name_and_comes_back() -> None:
    for ours, _ in tiny_model().named_parameters():
        public = public_name(ours)
        assert public.startswith(("paligemma_with_expert.", "action_", "time_mlp_"))
        assert our_name(public) == our_name(lerobot_name(public)) == ours
        assert our_name(flat_lerobot_name(public)) == ours


def test_some_names_as_they_are_published() -> None:
    vision = "paligemma_with_expert.paligemma.model.vision_tower.vision_model"
    expert = "paligemma_with_expert.gemma_expert.model"

    names = {public_name(name) for name, _ in tiny_model().named_parameters()}

    assert {
        f"{vision}.embeddings.patch_embedding.bias",
        f"{vision}.encoder.layers.0.self_attn.out_proj.weight",
        f"{vision}.encoder.layers.1.mlp.fc1.weight",
        f"{vision}.encoder.layers.1.layer_norm2.bias",
        f"{vision}.post_layernorm.weight",
        "paligemma_with_expert.paligemma.model.multi_modal_projector.linear.weight",
        "paligemma_with_expert.paligemma.model.language_model.layers.0.mlp.gate_proj.weight",
        f"{expert}.layers.1.input_layernorm.dense.weight",
        f"{expert}.norm.dense.bias",
        "action_in_proj.weight",
        "time_mlp_out.bias",
    } <= names


def test_half_precision_in_the_file_is_widened(tmp_path: Path) -> None:
    state = {name: value.to(torch.bfloat16) for name, value in openpi_state().items()}

    model = load(written(tmp_path / "model.safetensors", state))

    assert model.dtype == torch.float32
    assert torch.equal(model.prefix.embed_tokens.weight, state[EMBEDDING].float())


def test_embeddings_may_be_stored_as_the_tied_output_layer(tmp_path: Path) -> None:
    state = openpi_state()
    state[TIED] = state.pop(EMBEDDING)

    assert is_the_same(load(written(tmp_path / "model.safetensors", state)))


def test_embeddings_go_before_the_tied_output_layer(tmp_path: Path) -> None:
    state = openpi_state()
    tied = {TIED: torch.zeros_like(state[EMBEDDING])}

    for parts in ({"a": state, "b": tied}, {"a": tied, "b": state}):
        for file, part in parts.items():
            written(tmp_path / file, part)
        index = {"weight_map": {name: file for file, part in parts.items() for name in part}}
        (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
        assert is_the_same(load(tmp_path))


def test_a_folder_with_one_file_or_with_parts_is_read(tmp_path: Path) -> None:
    state = openpi_state()
    names = sorted(state)
    parts = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    folder = tmp_path / "parts"
    folder.mkdir()
    for file, part in parts.items():
        written(folder / file, {name: state[name] for name in part})
    index = {"weight_map": {name: file for file, part in parts.items() for name in part}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))

    assert is_the_same(load(folder))
    assert is_the_same(load(written(tmp_path / "model.safetensors", state).parent))


def test_a_missing_weight_is_refused_by_name(tmp_path: Path) -> None:
    state = openpi_state()
    del state["action_in_proj.bias"], state[EMBEDDING]

    with pytest.raises(InvalidArgumentError) as raised:
        load(written(tmp_path / "model.safetensors", state))

    assert f"missing: action_in_proj.bias, {EMBEDDING}" in str(raised.value)


def test_an_unknown_weight_is_refused_by_name(tmp_path: Path) -> None:
    state = openpi_state() | {
        "state_proj.weight": torch.zeros(2),
        "value_head.bias": torch.zeros(1),
    }

    message = re.escape("unknown: state_proj.weight, value_head.bias")
    with pytest.raises(InvalidArgumentError, match=message):
        load(written(tmp_path / "model.safetensors", state))


@pytest.mark.parametrize("name", ["time_mlp_in.weight", EXPERT_HEAD])
def test_a_weight_of_another_shape_is_refused_by_name(tmp_path: Path, name: str) -> None:
    state = openpi_state()
    expected = tuple(state[name].shape)
    state[name] = torch.zeros(3, 5)

    message = re.escape(f"of another shape: {name} is (3, 5) and should be {expected}")
    with pytest.raises(InvalidArgumentError, match=message):
        load(written(tmp_path / "model.safetensors", state))


def test_all_faults_are_told_at_once_and_long_lists_are_cut(tmp_path: Path) -> None:
    state = openpi_state()
    dropped = sorted(name for name in state if "vision_tower" in name)[:8]
    for name in dropped:
        del state[name]
    state["nonsense"] = torch.zeros(1)

    with pytest.raises(InvalidArgumentError) as raised:
        load(written(tmp_path / "model.safetensors", state))

    text = str(raised.value)
    assert dropped[0] in text
    assert "and 3 more" in text
    assert "unknown: nonsense" in text


def test_weights_that_are_not_finite_are_refused_by_name(tmp_path: Path) -> None:
    state = openpi_state()
    state["action_out_proj.bias"][3] = torch.nan

    with pytest.raises(InvalidArgumentError, match=r"not finite numbers: action_out_proj\.bias"):
        load(written(tmp_path / "model.safetensors", state))


@pytest.mark.parametrize("dtype", [torch.int8, torch.bool, torch.float8_e4m3fn])
def test_weights_in_a_format_that_needs_scales_are_refused_by_name(
    tmp_path: Path, dtype: torch.dtype
) -> None:
    state = openpi_state()
    state["action_out_proj.bias"] = state["action_out_proj.bias"].to(dtype)

    with pytest.raises(InvalidArgumentError, match=r"not in one of .*action_out_proj\.bias is"):
        load(written(tmp_path / "model.safetensors", state))


def test_a_weight_that_is_there_by_two_names_is_refused(tmp_path: Path) -> None:
    state = openpi_state()
    state["model.action_out_proj.bias"] = state["action_out_proj.bias"] + 1.0

    with pytest.raises(InvalidArgumentError, match=r"twice by .*: action_out_proj\.bias"):
        load(written(tmp_path / "model.safetensors", state))


def test_a_weight_that_is_in_two_parts_is_refused(tmp_path: Path) -> None:
    state = openpi_state()
    written(tmp_path / "a.safetensors", state)
    written(tmp_path / "b.safetensors", {EMBEDDING: state[EMBEDDING] + 1.0})
    index = {"weight_map": {"one": "a.safetensors", "two": "b.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))

    with pytest.raises(InvalidArgumentError, match="that another part has too"):
        load(tmp_path)


@pytest.mark.parametrize(
    "index", ["[]", "{", '{"weight_map": {"a": 1}}', '{"weight_map": {"a": []}}', "[" * 100_000]
)
def test_an_index_that_is_none_is_refused(tmp_path: Path, index: str) -> None:
    (tmp_path / "model.safetensors.index.json").write_text(index)

    with pytest.raises(InvalidArgumentError, match="an index that cannot be read"):
        load(tmp_path)


def test_no_checkpoint_and_a_broken_one_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"not weights")

    with pytest.raises(InvalidArgumentError, match=r"model\.safetensors is no .* cannot be read"):
        load(tmp_path)
    with pytest.raises(InvalidArgumentError, match="there is no checkpoint"):
        load(tmp_path / "elsewhere")


def test_the_public_size_has_the_tensors_that_are_published() -> None:
    with torch.device("meta"):
        model = Pi05Model(PUBLIC)
    shapes = {public_name(name): tuple(value.shape) for name, value in model.named_parameters()}
    for name, shape in unused_shapes(PUBLIC).items():
        shapes[name if name == EXPERT_HEAD else public_name(name)] = shape
    language, expert = (
        "paligemma_with_expert.paligemma.model.language_model.layers.17",
        "paligemma_with_expert.gemma_expert.model.layers.17",
    )

    # As counted in the checkpoints that openpi's converter makes of its own.
    assert len(shapes) == 812
    assert shapes[EMBEDDING] == (257_152, 2048)
    assert shapes[EXPERT_HEAD] == (257_152, 1024)
    assert shapes[f"{language}.self_attn.k_proj.weight"] == (256, 2048)
    assert shapes[f"{language}.mlp.down_proj.weight"] == (2048, 16_384)
    assert shapes[f"{expert}.self_attn.o_proj.weight"] == (1024, 2048)
    assert shapes[f"{expert}.input_layernorm.dense.weight"] == (3072, 1024)
    assert shapes["action_out_proj.weight"] == (32, 1024)
