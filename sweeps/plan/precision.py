"""Resolves `precision=auto` for all trials of a sweep, and checks that their encoders fit them."""

from collections.abc import Mapping
from dataclasses import replace

from mtlib.model.encoder import PretrainedEncoder
from mtlib.runtime.bf16 import has_bf16
from mtlib.runtime.errors import first_line, require
from search_spaces.space import changed_keys, search_domain
from sweeps.options import SweepOptions
from sweeps.plan.checks.encoder import check_encoders_fit
from sweeps.plan.inputs import SweepInputs


def fit_encoders(options: SweepOptions, inputs: SweepInputs, encoders: Mapping[str, PretrainedEncoder]) -> SweepInputs:
    """Returns the inputs with a precision in place of `auto`, with which every point of the space fits its encoder.

    It is bf16 where every machine that trains has instructions for it and no trial and no step with any of the encoders
    refuses it. All encoders have the same, so that it explains no difference between them.

    Raises:
        ValueError: as `check_encoders_fit`.
    """
    if inputs.space.base.precision != "auto":
        check_encoders_fit(options, inputs, encoders)
        return inputs
    space = inputs.space
    if any("precision" in changed_keys(space, key) for key in search_domain(space)):  # no trial has the base's own
        in_fp32 = with_precision(inputs, "fp32", None)
        is_given = all(config.precision != "auto" for config in in_fp32.space.configs)
        require(is_given, "precision must be searched among fp32 and bf16, one of which auto stands for", "auto")
        check_encoders_fit(options, in_fp32, encoders)
        return in_fp32
    all_have_it = machines_have_bf16(options)
    which = f"{'every' if all_have_it else 'not every'} {'GPU' if options.gpus_per_worker > 0 else 'processor'}"
    reason = f"{which} that trains has instructions for bf16"
    if all_have_it:
        try:
            in_bf16 = with_precision(inputs, "bf16", reason)
            check_encoders_fit(options, in_bf16, encoders)
            return in_bf16
        except ValueError as error:
            reason = first_line(error)
    in_fp32 = with_precision(inputs, "fp32", reason)
    check_encoders_fit(options, in_fp32, encoders)
    return in_fp32


def describe_precision(inputs: SweepInputs) -> list[str]:
    """Returns how `precision=auto` was resolved, in a line; empty where the precision was given."""
    if inputs.precision_reason is None:
        return []
    return [f"Precision: {inputs.space.base.precision} (auto): {inputs.precision_reason}"]


def with_precision(inputs: SweepInputs, precision: str, why: str | None) -> SweepInputs:
    """Returns the inputs whose trials have a precision; ValueError if a setting of some trial refuses it."""
    base = inputs.space.base.override({"precision": precision})
    return replace(inputs, space=replace(inputs.space, base=base), precision_reason=why)


def machines_have_bf16(options: SweepOptions) -> bool:
    """Returns whether this machine, or every node of the joined cluster that a worker fits, has instructions for
    bf16."""
    if options.address is None:
        return has_bf16(on_gpu=options.gpus_per_worker > 0)
    from sweeps.cluster.capacity import nodes_have_bf16  # here: a dry run on this machine does not load Ray

    return nodes_have_bf16(options)
