"""SMART: a penalty on how much predictions change when the embedded text is moved a little (Jiang et al. 2020).

The noise enters after position, type, LayerNorm and dropout of the embeddings, so zero noise with dropout off gives a
penalty of exactly 0. Feeding the embeddings back as `inputs_embeds` would add positions and normalise twice. Encoders
without a single module for all of this, such as XLM, are refused (`mtlib.model.encoder.embedding_layer`).
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from mtlib.config.penalties import SmartConfig
from mtlib.data.batches import Batch, index_on
from mtlib.kinds import Kind
from mtlib.loss.clean_pass import CleanPass
from mtlib.loss.divergences import divergence_from, symmetric_divergence
from mtlib.model.dropout import restore_random_state
from mtlib.runtime.seeds import numpy_stream

Perturbed = Callable[[Sequence[Tensor]], Tensor]
"""From noise to logits: adds each noise to its embedded text and runs the rest of the model."""


def smart_penalty(clean: CleanPass, settings: SmartConfig) -> tuple[Tensor, Tensor]:
    """Returns the penalty and the norm of its noise, (rows,) each.

    With `row_share` below 1, only some rows have them, and each of these counts for several: the mean over the global
    batch is that over the rows that have them.
    """
    num_rows = clean.batch.num_rows
    carrying = carrying_positions(num_rows, settings.row_share, clean.place.noise_seed)
    if len(carrying) == num_rows:
        return penalty_of_rows(clean, settings)
    none = clean.output.logits.new_zeros(len(clean.batch.rows))
    places = np.flatnonzero(np.isin(clean.batch.positions, carrying))
    if len(places) == 0:
        return none, none
    part = clean.some_rows(places)
    penalty, norms = penalty_of_rows(part.again() if settings.masks == "shared" else part, settings)
    index, factor = index_on(none.device, places), num_rows / len(carrying)
    return none.index_copy(0, index, factor * penalty), none.index_copy(0, index, factor * norms)


def carrying_positions(num_rows: int, row_share: float, seed: int) -> np.ndarray:
    """Positions in a global batch, from 0, of the rows that carry the penalty, drawn at random; at least one."""
    return numpy_stream(seed, "rows").permutation(num_rows)[: max(1, round(row_share * num_rows))]


def penalty_of_rows(clean: CleanPass, settings: SmartConfig) -> tuple[Tensor, Tensor]:
    """Returns the penalty and the norm of its noise for every row of a pass, (rows,) each."""
    return smoothness(
        settings,
        clean.kind,
        clean.output.logits,
        first_noise(clean.batch, clean.output.embeddings, clean.place.noise_seed),
        [inputs.attention_mask for inputs in clean.batch.inputs],
        perturbed_pass(clean, settings),
        climbed_pass(clean, settings),
    )


def perturbed_pass(clean: CleanPass, settings: SmartConfig, in_fp32: bool = False) -> Perturbed:
    """Returns the pass of the perturbed text, in the configured precision or in fp32."""

    def perturbed(noise: Sequence[Tensor]) -> Tensor:
        # fp32 also under autocast: a noise of 1e-5 would vanish in bfloat16.
        moved = [text.float() + part for text, part in zip(clean.output.embeddings, noise, strict=True)]
        if settings.masks == "shared":
            restore_random_state(clean.batch.labels.device, clean.random_state)
        return clean.logits(moved, in_fp32)

    return perturbed


def climbed_pass(clean: CleanPass, settings: SmartConfig) -> tuple[Tensor, Perturbed]:
    """Returns the clean logits and the perturbed pass whose divergence the ascent climbs.

    In fp32 where the divergence is below bfloat16's rounding errors: where both passes have the same dropout masks, or
    none, a noise of 1e-5 moves the logits by some 1e-5. With masks of their own they differ anyway, and the gradient's
    direction is that of fp32 (cosine .99 and more).
    """
    dropouts = (module for module in clean.model.modules() if isinstance(module, nn.Dropout))
    has_same_masks = settings.masks == "shared" or not any(module.p > 0 for module in dropouts)
    if settings.mode == "random" or clean.config.precision == "fp32" or not has_same_masks:
        return clean.output.logits, perturbed_pass(clean, settings)
    in_fp32 = perturbed_pass(clean, settings, in_fp32=True)
    with torch.no_grad():
        return in_fp32([torch.zeros_like(text) for text in clean.output.embeddings]), in_fp32


def first_noise(batch: Batch, embeddings: Sequence[Tensor], seed: int) -> list[Tensor]:
    """Standard normal noise, drawn for the global batch and sliced to this shard; (rows, tokens, hidden) each."""
    device = batch.labels.device
    stream = torch.Generator(device=device).manual_seed(seed)
    positions = index_on(device, batch.positions)
    drawn = [torch.randn((batch.num_rows, *text.shape[1:]), generator=stream, device=device) for text in embeddings]
    return [noise[positions] for noise in drawn]


def smoothness(
    config: SmartConfig,
    kind: Kind,
    clean_logits: Tensor,
    first_noise: Sequence[Tensor],
    masks: Sequence[Tensor],
    perturbed: Perturbed,
    climbed: tuple[Tensor, Perturbed] | None = None,
) -> tuple[Tensor, Tensor]:
    """Returns the smoothness penalty of one batch.

    Args:
        config: mode, number and size of ascent steps.
        kind: the task's kind of label, which chooses the divergence.
        clean_logits: (rows, num_logits), differentiable.
        first_noise: standard normal draws, (rows, tokens, hidden) for each input of the task.
        masks: (rows, tokens) for each input, 1 on text and 0 on padding; padding gets no noise.
        perturbed: gives the logits for a noise.
        climbed: clean logits and the function of the noise whose divergence the ascent climbs, where these are not
            `clean_logits` and `perturbed`.

    Returns:
        The penalty, (rows,), and the inf-norm of its noise, (rows,), in units of the embedding output. Gradients flow
        through both predictions of the penalty; during the ascent the clean one is held fixed and no parameter receives
        a gradient.

    Source: Jiang et al. 2020, equation 2 and algorithm 1; BERT and Beyond 3.5, 4.3.
    """
    keep = [mask.unsqueeze(2).to(torch.float32) for mask in masks]
    noise = [config.noise_std * draw * mask for draw, mask in zip(first_noise, keep, strict=True)]
    held, moved = climbed or (clean_logits, perturbed)
    if config.mode == "random":
        noise = [unit_norm(part, config.epsilon) for part in noise]
    else:
        for _ in range(config.num_steps):
            gradients = ascent_gradients(kind, held, noise, moved)
            parts = zip(noise, gradients, keep, strict=True)
            noise = [step_noise(config, part, gradient * mask) for part, gradient, mask in parts]
    penalty = symmetric_divergence(kind, perturbed(noise), clean_logits)
    norms = torch.stack([part.abs().amax(dim=(1, 2)) for part in noise])
    return penalty, norms.amax(dim=0)


def ascent_gradients(
    kind: Kind, clean_logits: Tensor, noise: Sequence[Tensor], perturbed: Perturbed
) -> tuple[Tensor, ...]:
    """Returns the gradient of the divergence that an ascent step climbs, in its noise; the same shapes as `noise`."""
    variables = [part.detach().requires_grad_() for part in noise]
    # Summed, not averaged: each row climbs its own divergence, whatever the batch.
    climbed = divergence_from(kind, perturbed(variables), clean_logits).sum()
    return torch.autograd.grad(climbed, variables)


def step_noise(config: SmartConfig, noise: Tensor, gradient: Tensor) -> Tensor:
    """Returns the noise after one ascent step: `unit_norm` or `paper` (see `SmartConfig.mode`);
    (rows, tokens, hidden)."""
    if config.mode == "unit_norm":
        return unit_norm(noise + config.step_size * gradient, config.epsilon)
    largest = gradient.abs().amax(dim=(1, 2), keepdim=True).clamp_min(torch.finfo(gradient.dtype).tiny)
    return (noise + config.step_size * gradient / largest).clamp(-config.epsilon, config.epsilon)


def unit_norm(noise: Tensor, epsilon: float) -> Tensor:
    """Returns each token's noise over its largest entry: inf-norm 1, and 0 where the noise is 0."""
    return noise / (noise.abs().amax(dim=2, keepdim=True) + epsilon)
