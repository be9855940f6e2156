"""One model from several trials: their weights, averaged, where encoder and shape are the same for all."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from mtlib.config.trial import TrialConfig
from mtlib.runtime.errors import require
from mtlib.runtime.storage import open_folder
from mtlib.stages.active_weights import part_of_weight
from mtlib.stages.effective_settings import predicting_parts, prediction_config
from results.analysis.comparison.bootstrap import Numbers
from results.ensembles.candidates import describe_candidate
from results.inference.models import LoadedModel, ModelSource, find_trials, load_pretrained
from results.records.selection import Member
from results.records.trials import TrialRecord
from results.records.weights import read_trial_weights

if TYPE_CHECKING:  # `results` must load without torch
    from mtlib.checkpoints.best_weights import ModelWeights


def find_shapes(members: Sequence[Member], task: str, source: ModelSource) -> Numbers:
    """Which members' weights can be averaged to predict a task, from their configurations: no weights are read.

    Args:
        members: at least one.
        task: what is to be predicted.
        source: where their sweeps are.

    Returns:
        (members,): equal numbers, from 0, for members of one shape.

    Raises:
        ValueError: in one line: a sweep or a trial is not there, or has not learned the task.
    """
    found: dict[TrialConfig, int] = {}
    configs = (prediction_config(config, task) for _, config in find_trials(members, task, source))
    return np.array([found.setdefault(config, len(found)) for config in configs], dtype=np.intp)


def load_soup(members: Sequence[Member], task: str, source: ModelSource) -> LoadedModel:
    """Loads one model whose weights are the mean of the members'.

    Args:
        members: at least one, of one shape and with equal weights; the mean of one is that model, bit for bit.
        task: what it is to predict; it has no other.
        source: where they are.

    Raises:
        ValueError: in one line: as `results.inference.models.load_models`, or members are not of one shape, or have
            other weights than equal ones.
    """
    from mtlib.checkpoints.export import build_model
    from mtlib.runtime.environment import choose_device

    trials = find_trials(members, task, source)
    shape = common_shape(members, [config for _, config in trials], task)
    device = choose_device(source.device)
    pretrained = load_pretrained(source.encoder or shape.encoder.name, source)
    config = replace(shape, evaluation=trials[0][1].evaluation)
    weights = mean_weights(members, [record for record, _ in trials], shape, source)
    name = f"the soup of {' and '.join(map(describe_candidate, members))}"
    model = build_model(config, pretrained, weights, f"weights must fit the configuration of {name}")
    return LoadedModel(name=name, model=model.to(device), config=config, pretrained=pretrained)


def common_shape(members: Sequence[Member], configs: Sequence[TrialConfig], task: str) -> TrialConfig:
    """What predictions of all members depend on; ValueError if it is not the same, or they do not weigh the same."""
    first, *others = (prediction_config(config, task) for config in configs)
    rule = "members of a soup must have one encoder and one shape"
    for member, other in zip(members[1:], others, strict=True):
        require(
            other == first,
            rule,
            f"{describe_candidate(member)}, whose are others than those of {describe_candidate(members[0])}",
        )
    weights = [member.weight for member in members]
    require(len(set(weights)) == 1, "members of a soup must have equal weights", ", ".join(map(str, weights)))
    return first


def mean_weights(
    members: Sequence[Member], records: Sequence[TrialRecord], shape: TrialConfig, source: ModelSource
) -> "ModelWeights":
    """The mean of the members' weights, of the parts that a model of this shape has.

    Sums are in double precision: the mean is rounded once, that of equal weights is those, bit for bit, and the order
    of members makes no difference, but for weights of which one is some 10^8 times another. In memory are the sum and
    the weights of one member, which are read one after another.
    """
    from mtlib.checkpoints.initial_weights import check_fit

    total: ModelWeights = {}
    types, parts = {}, predicting_parts(shape)
    for member, record in zip(members, records, strict=True):
        read = read_trial_weights(open_folder(source.places[member.sweep]), record, member.epoch)
        own = {name: tensor for name, tensor in read.items() if part_of_weight(name) in parts}
        if not total:
            types = {name: tensor.dtype for name, tensor in own.items()}
            total = {name: tensor.double() for name, tensor in own.items()}
            continue
        check_fit(
            f"weights of {describe_candidate(member)} must be like those of {describe_candidate(members[0])}",
            own,
            total,
        )
        for name, tensor in own.items():
            total[name] += tensor
    return {name: (total.pop(name) / len(members)).to(types[name]) for name in list(total)}
