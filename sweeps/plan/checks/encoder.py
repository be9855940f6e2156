"""Checks that encoders fit the configurations of a space, and can take a training step with each."""

import contextlib
from collections.abc import Iterable, Mapping, Sequence

from mtlib.checkpoints.initial_weights import load_start, read_starting_weights
from mtlib.config.trial import TrialConfig
from mtlib.model.architecture_check import TRIED_FAMILIES
from mtlib.model.encoder import FLASH, PretrainedEncoder, build_encoder, embedding_layer
from mtlib.model.layers import check_fits
from mtlib.model.multitask import MultiTaskModel
from mtlib.training.preflight import check_step_runs
from sweeps.options import SweepOptions
from sweeps.plan.inputs import SweepInputs


def check_encoders_fit(options: SweepOptions, inputs: SweepInputs, encoders: Mapping[str, PretrainedEncoder]) -> None:
    """Raises ValueError unless the settings of every point of the space fit its encoder, by name in `encoders`.

    Of several encoders the message names the one.
    """
    for name, pretrained in encoders.items():
        configs = [config for config in inputs.space.configs if config.encoder.name == name]
        try:
            for encoder_config in {config.encoder: None for config in configs}:
                check_points([config for config in configs if config.encoder == encoder_config], pretrained)
            check_step_runs(configs, pretrained, on_gpu=options.gpus_per_worker > 0)
        except ValueError as error:
            raise ValueError(f"{name}: {error}" if len(encoders) > 1 else str(error)) from error


def describe_families(encoders: Iterable[PretrainedEncoder]) -> list[str]:
    """Returns a warning for each family of encoders that nobody has tried; empty for the others."""
    unknown = {own.config.model_type: None for own in encoders if own.config.model_type not in TRIED_FAMILIES}
    return [
        f"Warning: encoders of the family {family} have not been tried with every feature, as those of "
        "docs/encoders.md have. Steps like those of the trials ran; compare the first scores with a known encoder's."
        for family in unknown
    ]


def describe_flash(options: SweepOptions, inputs: SweepInputs, encoders: Mapping[str, PretrainedEncoder]) -> list[str]:
    """Returns a line for each family of encoders that could have flash attention on this machine's GPUs, where no trial
    has it; empty otherwise."""
    configs = inputs.space.configs
    if options.gpus_per_worker == 0 or any(config.encoder.attention == FLASH for config in configs):
        return []
    from transformers.utils import is_flash_attn_2_available  # here: a CPU does without the import

    families: dict[str, None] = {}
    for name, encoder in encoders.items() if is_flash_attn_2_available() else ():
        with contextlib.suppress(ValueError):  # the family has no such attention, or a setting of some trial refuses it
            own = [config.override({"encoder.attention": FLASH}) for config in configs if config.encoder.name == name]
            build_encoder(encoder, own[0].encoder)
            families[encoder.config.model_type] = None
    return [
        f"The package flash-attn is here and {family} takes it: encoder.attention={FLASH} may be faster."
        for family in families
    ]


def check_points(configs: Sequence[TrialConfig], pretrained: PretrainedEncoder) -> None:
    """Raises ValueError unless the encoder and the starting weights fit all of `configs`, which share both."""
    encoder = build_encoder(pretrained, configs[0].encoder)
    for config in configs:
        check_fits(config, encoder)
    if any(config.needs_embeddings for config in configs):
        embedding_layer(encoder)
    if configs[0].encoder.start_from is not None:
        start = read_starting_weights(configs[0].encoder)
        load_start(configs[0].encoder, MultiTaskModel(configs[0], pretrained), start)
