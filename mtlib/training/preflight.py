"""Runs a step of each kind that trials take before they start, so that an unsuitable encoder fails at once."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from mtlib.config.gradient_methods import check_packages
from mtlib.config.trial import TrialConfig
from mtlib.data.batches import Batch
from mtlib.loss.clean_pass import Place, autocast
from mtlib.loss.objective import Objective, check_sign, penalties_of
from mtlib.model.architecture_check import WORKING
from mtlib.model.encoder import PretrainedEncoder, check_attention
from mtlib.model.multitask import MultiTaskModel
from mtlib.model.repeated_words import table_of_texts, text_batch
from mtlib.runtime.errors import WrongResult, first_line, require, typed_line
from mtlib.runtime.method_file import line_of_method
from mtlib.runtime.threads import using_threads

SHORT = (8, 5)
"""Lengths of the two texts of the training step, in word pieces."""


def check_step_runs(configs: Sequence[TrialConfig], pretrained: PretrainedEncoder, on_gpu: bool) -> None:
    """Runs a step of each kind that trials take with an encoder, on the CPU.

    Args:
        configs, pretrained: the trials' configurations, and the encoder that they fit.
        on_gpu: whether the trials will be trained on GPUs. Then bf16 is left out: a GPU may support more.

    Raises:
        ValueError: in one line: the encoder cannot take a step with SMART, with PALs or in the precision that is asked
            for, or cannot read a text of encoder.max_length; a user's own loss or penalty fails, with its line, or
            returns what it must not; or packages of a gradient method are missing.
    """
    for config in configs:
        check_packages(config.gradients, config.gradient_entry)
        check_attention(config.encoder, on_gpu)
    kinds: dict[tuple[int, tuple[str, ...]], tuple[TrialConfig, str]] = {}
    for config in (without_plain_penalties(config, on_gpu) for config in configs):
        for task in config.active_tasks:
            kinds.setdefault((config.encoder.max_length, required_features(config, task)), (config, task))
    for (_, asked), (config, task) in sorted(kinds.items(), key=lambda kind: kind[0]):
        with torch.random.fork_rng(devices=[]), using_threads(1):
            try_step(config, task, pretrained, asked)


def without_plain_penalties(config: TrialConfig, on_gpu: bool) -> TrialConfig:
    """Returns a configuration without the built-in penalties that need nothing of an encoder, and the data for them;
    and on a GPU in fp32, without the attention that only GPUs have."""
    built_in = [name for name in config.penalties if ("penalties", name) not in config.methods.origins]
    plain = [name for name in built_in if not config.methods.penalties[name].needs_embeddings]
    sources = {name: source for name, source in config.data.sources.items() if not source.teacher_columns}
    has_flash = config.encoder.attention == "flash_attention_2"
    changes: dict[str, Any] = {name: replace(config.penalties[name], weight=0.0) for name in plain}
    changes |= {"encoder": replace(config.encoder, attention="auto")} if on_gpu and has_flash else {}
    changes |= {"precision": "fp32"} if on_gpu else {}
    return replace(config, data=replace(config.data, sources=sources), **changes)


def required_features(config: TrialConfig, task: str) -> tuple[str, ...]:
    """Returns what a task's step needs besides a plain pass with a built-in loss, by title."""
    settings, has_adapter = config.tasks[task], config.adapter.method != "none"
    return (
        *([settings.loss_entry.title] if ("losses", settings.loss) in config.methods.origins else []),
        *(["precision bf16 on the CPU"] if config.precision == "bf16" else []),
        *(config.methods.penalties[name].title for name in penalties_of(config, task, turn=0)),
        *([f"attention {config.encoder.attention}"] if config.encoder.attention != "auto" else []),
        *(["gradient checkpointing"] if config.encoder.gradient_checkpointing else []),
        *([f"LoRA of {' and '.join(config.adapter.targets) or 'queries and values'}"] if has_adapter else []),
        *([f"PALs ({config.pals.placement})"] if task in config.pals.tasks and config.pals.size > 0 else []),
    )


def try_step(config: TrialConfig, task: str, pretrained: PretrainedEncoder, asked: Sequence[str]) -> None:
    """Encodes texts of the greatest length, then takes a step with short ones; raises as `check_step_runs`."""
    objective = Objective(config, MultiTaskModel(config, pretrained).train())
    longest, needs_embeddings = config.encoder.max_length, bool(penalties_of(config, task, turn=0))
    table = table_of_texts(config.task(task), pretrained, (longest, *SHORT))
    short = text_batch(table, config, [1, 2], longest)
    # One token less as well: encoders that work in blocks pad it. Short texts last: BigBird leaves its blocks then.
    batches = [text_batch(table, config, [0], longest - 1), text_batch(table, config, [0], longest), short]
    tokens = 0
    try:
        for batch in batches:
            tokens = batch.inputs[0].input_ids.shape[1]
            check_encoding(objective, batch, needs_embeddings)
        loss, details = objective([short], [Place(noise_seed=0, turn=0, full_size=len(SHORT))])
        torch.autograd.backward(loss)
        for term, total in zip(objective.all_terms, details[0].tolist(), strict=True):
            check_sign(config, term, total / len(SHORT))
    except WrongResult:
        raise
    except Exception as error:  # its class depends on the architecture
        if place := line_of_method(error):
            raise ValueError(f"{place}: {typed_line(error)}") from error
        encoder = f"encoder '{pretrained.name}' ({pretrained.config.model_type})"
        what = f" with {' and '.join(asked)}, as {WORKING} do" if asked else ""
        rule = f"{encoder} must read a text of {tokens} tokens{what}"
        raise ValueError(f"{rule}, got: {first_line(error)}") from error


def check_encoding(objective: Objective, batch: Batch, needs_embeddings: bool) -> None:
    """Encodes texts as a step would.

    Raises:
        ValueError: the embeddings that a penalty moves are not one vector for each token: Longformer pads texts before
            it embeds them, I-BERT returns a scale with the vectors.
    """
    with torch.no_grad(), autocast(objective.config, batch.labels.device):
        entered = objective.model.encode_texts(batch.task, batch.inputs, keep=needs_embeddings)[1]
    for inputs, text in zip(batch.inputs if needs_embeddings else (), entered, strict=True):
        tokens = inputs.input_ids.shape[1]
        found = f"{text.shape[1]} for {tokens} tokens" if isinstance(text, Tensor) else f"a {type(text).__name__}"
        is_one = isinstance(text, Tensor) and text.shape[1] == tokens
        require(is_one, "its 'embeddings' must return one vector per token", found)
