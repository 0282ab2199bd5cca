from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import Tensor

from robot_sdk.errors import InvalidArgumentError
from server.policy.pi05.config import PUBLIC, TINY
from server.policy.pi05.expert import Modulation
from server.policy.pi05.flow_time import embed_times, euler_times
from server.policy.pi05.layers import attend, rotary_tables, rotate
from server.policy.pi05.model import Pi05Model
from tests.unit.server.policy.pi05.helpers import HORIZON, SIDE_PX, tiny_model

NUM_TOKENS = 9
NUM_CAMERAS = 2
NUM_SEEN = NUM_CAMERAS * TINY.vision.num_patches


class Case:
    """A batch, and the model run on parts of it."""

    def __init__(self, batch: int, seed: int = 0) -> None:
        generator = torch.Generator().manual_seed(seed)
        pixels = torch.rand(batch, NUM_CAMERAS, 3, SIDE_PX, SIDE_PX, generator=generator)
        self.pictures = pixels * 2 - 1
        self.tokens = torch.randint(
            3, TINY.vocabulary_size, (batch, NUM_TOKENS), generator=generator
        )
        self.noise = torch.randn(batch, HORIZON, TINY.action_width, generator=generator)
        self.lengths = torch.arange(batch) % 4 + NUM_TOKENS - 4

    def prefix_mask(self) -> Tensor:
        words = torch.arange(NUM_TOKENS) < self.lengths[:, None]
        return torch.cat((torch.ones(len(words), NUM_SEEN, dtype=torch.bool), words), dim=1)

    def mask(self) -> Tensor:
        rows = torch.ones(len(self.noise), HORIZON, dtype=torch.bool)
        return torch.cat((self.prefix_mask(), rows), dim=1)

    def row(self, index: int) -> Case:
        part = Case(1)
        for name, value in vars(self).items():
            setattr(part, name, value[index : index + 1])
        return part

    @torch.inference_mode()
    def prefill(self, model: Pi05Model) -> Tensor:
        cache = model.new_cache(len(self.noise), self.mask().shape[1])
        model.read(model.see(self.pictures), self.tokens, self.prefix_mask(), cache)
        return cache

    @torch.inference_mode()
    def run(self, model: Pi05Model, num_steps: int = 4) -> Tensor:
        return model.act(self.noise, model.modulation(num_steps), self.prefill(model), self.mask())


def test_stages_have_the_documented_shapes() -> None:
    model, case = tiny_model(), Case(3)

    seen = model.see(case.pictures)
    actions = case.run(model)

    assert seen.shape == (3, NUM_SEEN, TINY.prefix.width)
    assert actions.shape == (3, HORIZON, TINY.action_width)
    assert actions.dtype == torch.float32
    assert torch.isfinite(actions).all()


def test_rows_of_a_batch_do_not_touch_each_other() -> None:
    model, case = tiny_model(), Case(4)

    together = case.run(model)
    alone = torch.cat([case.row(index).run(model) for index in range(4)])

    assert torch.allclose(together, alone, atol=1e-5)


def test_a_prefix_kept_once_equals_one_computed_for_every_step() -> None:
    model, case = tiny_model(), Case(2)
    modulation = model.modulation(4)

    kept = case.run(model, 4)
    state = case.noise
    with torch.inference_mode():
        for step in range(4):
            cache = case.prefill(model)
            tables = model.expert.tables(case.mask(), HORIZON)
            layers, final = modulation.layers[step], modulation.final[step]
            state = state - model.expert(state, layers, final, tables, cache, case.mask()) / 4

    assert torch.equal(kept, state)


def test_what_is_padded_changes_nothing() -> None:
    model, case = tiny_model(), Case(2)
    other = Case(2)
    other.tokens = torch.where(case.prefix_mask()[:, NUM_SEEN:], case.tokens, 99)

    assert torch.allclose(case.run(model), other.run(model), atol=1e-6)


def test_room_between_prefix_and_rows_changes_nothing() -> None:
    model, case = tiny_model(), Case(2)
    expected = case.run(model)

    room = torch.zeros(2, 5, dtype=torch.bool)
    rows = torch.ones(2, HORIZON, dtype=torch.bool)
    mask = torch.cat((case.prefix_mask(), room, rows), dim=1)
    with torch.inference_mode():
        cache = model.new_cache(2, mask.shape[1])
        model.read(model.see(case.pictures), case.tokens, case.prefix_mask(), cache)
        found = model.act(case.noise, model.modulation(4), cache, mask)

    assert torch.allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("changed", ["pictures", "tokens", "noise"])
def test_every_input_matters(changed: str) -> None:
    model, case = tiny_model(), Case(2)
    other = Case(2)
    setattr(other, changed, getattr(Case(2, seed=1), changed))

    assert (case.run(model) - other.run(model)).abs().max() > 1e-3


def test_actions_see_the_rows_after_them() -> None:
    model, case = tiny_model(), Case(1)
    other = Case(1)
    other.noise = case.noise.clone()
    other.noise[0, -1] += 1.0

    assert (case.run(model)[0, 0] - other.run(model)[0, 0]).abs().max() > 1e-4


def test_half_precision_rounds_and_nothing_more() -> None:
    case = Case(2)
    model = tiny_model()
    expected = case.run(model)

    model.set_precision(torch.bfloat16)
    found = case.run(model)

    assert model.dtype == torch.bfloat16
    assert model.expert.action_out_proj.weight.dtype == torch.float32
    assert model.expert.layers[0].input_layernorm.dense.weight.dtype == torch.float32
    assert model.prefix.layers[0].input_layernorm.weight.dtype == torch.float32
    assert found.dtype == torch.float32
    difference = (found - expected).abs().max()
    assert 0 < difference < 0.1 * expected.abs().max()


def test_the_public_size_has_the_published_number_of_parameters() -> None:
    with torch.device("meta"):
        model = Pi05Model(PUBLIC)

    sizes = {
        name: sum(p.numel() for p in getattr(model, name).parameters()) / 1e6
        for name in ("vision", "prefix", "expert")
    }

    # SigLIP So400m without its pooling head, Gemma 2B without the last layer's unused part, and the
    # 300M expert with its adaptive normalisations.
    assert sizes["vision"] == pytest.approx(413 + 2.4, abs=2)
    assert sizes["prefix"] == pytest.approx(2508.5 - 109, abs=2)
    assert sizes["expert"] == pytest.approx(311 + 116 + 2, abs=3)


def test_prefix_and_expert_must_fit_together() -> None:
    expert = dataclasses.replace(TINY.expert, depth=3)

    with pytest.raises(InvalidArgumentError, match=r"expert\.depth.*got 3.*allowed: 2"):
        dataclasses.replace(TINY, expert=expert)


def test_euler_times_go_from_one_towards_zero() -> None:
    assert euler_times(4) == [1.0, 0.75, 0.5, 0.25]


def test_time_embedding_has_the_periods_it_says() -> None:
    period_min, period_max = 0.25, 4.0
    embedded = embed_times(torch.tensor([0.25]), 4, period_min, period_max)

    expected = torch.tensor([0.0, 0.38268343, 1.0, 0.92387953])
    assert torch.allclose(embedded[0], expected, atol=1e-6)


def test_rotation_keeps_lengths_and_depends_on_distance_alone() -> None:
    generator = torch.Generator().manual_seed(0)
    query, key = torch.randn(2, 1, 1, 1, 8, generator=generator)

    def score(at_query: int, at_key: int) -> float:
        turned = [
            rotate(x, rotary_tables(torch.tensor([[at]]), 8))
            for x, at in ((query, at_query), (key, at_key))
        ]
        assert torch.allclose(turned[0].norm(), query.norm())
        return float((turned[0] * turned[1]).sum())

    assert score(5, 3) == pytest.approx(score(105, 103), abs=1e-4)
    assert score(5, 3) != pytest.approx(score(3, 5), abs=1e-2)


def test_shared_heads_attend_as_repeated_ones_do() -> None:
    generator = torch.Generator().manual_seed(0)
    query = torch.randn(2, 6, 3, 8, generator=generator)
    key = torch.randn(2, 2, 5, 8, generator=generator)
    value = torch.randn(2, 2, 5, 8, generator=generator)
    mask = torch.tensor([[True] * 5, [True, True, False, True, False]])

    found = attend(query, key, value, mask)

    keys, values = key.repeat_interleave(3, 1), value.repeat_interleave(3, 1)
    scores = query @ keys.transpose(2, 3) / 8**0.5
    weights = scores.masked_fill(~mask[:, None, None], -torch.inf).softmax(-1)
    expected = (weights @ values).transpose(1, 2).reshape(2, 3, 48)
    assert torch.allclose(found, expected, atol=1e-5)


def test_no_stage_looks_at_a_value_at_the_public_size() -> None:
    """Tensors without content: reading a value on the host, as a sync of a GPU would, fails."""
    batch, num_cameras, num_tokens, horizon, num_steps = 3, 2, 200, 10, 5
    num_seen = num_cameras * PUBLIC.vision.num_patches
    with torch.device("meta"):
        model = Pi05Model(PUBLIC).set_precision(torch.bfloat16)
        pictures = torch.empty(batch, num_cameras, 3, 224, 224)
        tokens = torch.empty(batch, num_tokens, dtype=torch.long)
        mask = torch.empty(batch, num_seen + num_tokens + horizon, dtype=torch.bool)
        noise = torch.empty(batch, horizon, PUBLIC.action_width)
        width, depth = PUBLIC.expert.width, PUBLIC.expert.depth
        modulation = Modulation(
            torch.empty(num_steps, depth, 2, 3, width), torch.empty(num_steps, 3, width)
        )

    with torch.inference_mode():
        cache = model.new_cache(batch, mask.shape[1])
        seen = model.see(pictures)
        model.read(seen, tokens, mask[:, :-horizon], cache)
        actions = model.act(noise, modulation, cache, mask)

    assert seen.shape == (batch, 512, 2048)
    assert cache.shape == (18, 2, batch, 1, 722, 256)
    assert cache.dtype == torch.bfloat16
    assert actions.shape == (batch, horizon, 32)
    assert actions.dtype == torch.float32
