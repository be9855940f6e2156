"""Which settings of a configuration affect a trained number, for keys of stages; no other file lists them.

A trained number is the state after some epochs of a stage, with the scores and predictions of every epoch up to there.
A field is inert where its value cannot change that: the settings of a task that has not been active yet, those of a
penalty whose weight is 0, an order where a stage has one set only, and so on.
"""

from collections.abc import Mapping
from typing import Any

from mtlib.config.schema import fields_of, settings_of, to_dict
from mtlib.config.trial import TrialConfig, digests_of_used_files, named_entries
from mtlib.runtime.environment import versions_of
from mtlib.stages.draws import stage_sets
from mtlib.stages.plan import tasks_active_by

Tree = dict[str, Any]

PLACES_OF_WEIGHTS = ("name", "start_from", "start_epoch", "start_heads")
"""Settings of the encoder that say which weights it starts from: the content of these weights counts instead."""


def effective_settings(config: TrialConfig, stage_index: int, epochs: int, num_workers: int = 1) -> Tree:
    """Returns the settings that can affect the state after `epochs` epochs of a stage, as plain data.

    Equal settings, data, starting weights and machine give equal results. Paths of data, encoder and starting weights
    are left out: their content counts, which is not known here.

    Args:
        config, stage_index: which stage of which trial, from 0.
        epochs: epochs of that stage that are done; at 0 the stage has begun.
        num_workers: that train the trial together.
    """
    assert config.precision != "auto", "a precision is chosen before a stage has a key"
    stages, tasks = config.stages[: stage_index + 1], tasks_active_by(config, stage_index)
    random = (stage for stage in stages if stage.order_entry.is_random and len(stage_sets(stage)) > 1)
    drawn = {name for stage in random for name in stage_sets(stage)}
    extra, optimizer = {name for stage in stages for name in stage.extra_data}, config.optimizer
    has_scales = optimizer.chosen_scale != optimizer.other_scale
    has_chosen = has_scales and any(config.tasks[task].chosen_layers for task in tasks)
    digests = digests_of_used_files(config, named_entries(config, stages, tasks), tasks)
    penalties = {name: penalty_settings(config, name, tasks) for name in config.penalties}
    own = {name for table, name in config.methods.origins if table == "penalties" and penalties[name] is None}
    return {
        "methods": digests,
        "seed": config.seed,
        "replicate": config.replicate,
        "precision": config.precision,
        "stages": [
            stage_settings(config, index, epochs if index == stage_index else None) for index in range(len(stages))
        ],
        "encoder": leave_out(config.encoder, dict.fromkeys(PLACES_OF_WEIGHTS, False)),
        "adapter": None if config.adapter.method == "none" else to_dict(config.adapter) | versions_of(("peft",)),
        "definitions": {  # what files and tables are called shows in their rows
            own.name: pick(own, ("kind", "label_range", "metric", "weight")) | {"num_texts": len(own.text_columns)}
            for own in map(config.task, tasks)
        },
        "tasks": {task: task_settings(config, task, task in drawn, has_chosen) for task in tasks},
        "is_complete": tasks == config.active_tasks,  # then there are overall scores
        "extra_data": {  # path and columns show in its content
            name: pick(
                config.data.sources[name], ("task", "batch_size", *(("probability_factor",) if name in drawn else ()))
            )
            for name in sorted(extra)
        },
        "optimizer": optimizer_settings(config, has_chosen),
        "pals": pals_settings(config, tasks),
        "relational_tasks": shared(config.relational_tasks, tasks),
        "penalties": {name: settings for name, settings in penalties.items() if name not in own},
        "loss_weighting": weighting_settings(config, any(stage.sums_tasks for stage in stages)),
        "gradients": [config.gradients, settings_of(config.gradient_entry.settings, config)]
        if any(stage.sums_tasks for stage in stages)
        else "sum",
        "data": pick(
            config.data,
            ("bucket_by_length", "bucket_batches") if config.data.bucket_by_length else ("bucket_by_length",),
        ),
        "evaluation": to_dict(config.evaluation),
        # Of one worker or two the order does not count: a sum of two does not depend on it.
        "layout": memory_layout(config) if num_workers > 2 else None,
    }


def length_counts(config: TrialConfig, stage_index: int) -> bool:
    """Returns whether what a stage does in its first epochs depends on how many it has:
    by its rates, order or mean teacher."""
    stage = config.stages[stage_index]
    by_order = len(stage_sets(stage)) > 1 and stage.order_entry.length_counts(stage)
    groups = config.active_penalties.items()
    by_penalty = any(config.methods.penalties[name].length_counts(group) for name, group in groups)
    return by_order or by_penalty or not config.optimizer.is_constant


def pick(group: Any, names: tuple[str, ...]) -> Tree:
    return {name: to_dict(getattr(group, name)) for name in names}


def leave_out(group: Any, conditions: Mapping[str, bool]) -> Tree:
    """Returns all fields of a group without those whose condition does not hold."""
    return {name: value for name, value in to_dict(group).items() if conditions.get(name, True)}


def of_one_method(table: Mapping[str, Any], chosen: str | None) -> dict[str, bool]:
    """Makes conditions for `leave_out` that keep the settings of the chosen method in a table alone."""
    own = {} if chosen is None else fields_of([table[chosen].settings])
    return {name: name in own for name in fields_of(method.settings for method in table.values())}


def shared(named: tuple[str, ...], tasks: tuple[str, ...]) -> list[str]:
    """Returns those of the named tasks that have been active."""
    return sorted(set(named) & set(tasks))


def stage_settings(config: TrialConfig, index: int, epochs: int | None) -> Tree:
    """Returns a stage, or its first `epochs` epochs. A set alone is the same in every order."""
    stage = config.stages[index]
    has_sets = len(stage_sets(stage)) > 1
    done = stage.epochs if epochs is None else epochs
    scored = [epoch for epoch in stage.scored_epochs if epoch <= done]  # they decide on scores and best weights
    conditions = {
        "order": has_sets,
        "sum_losses": has_sets,
        **of_one_method(stage.batch_orders, stage.order if has_sets else None),
        "start_from": index > 0,
        "reset_optimizer": index > 0 and stage.start_from == "last",
        "epochs": epochs is None or length_counts(config, index),
        "score_every": False,
        "patience": stage.patience is not None and stage.patience < len(scored),
    }
    return {**leave_out(stage, conditions), "epochs_done": done, "scored_epochs": scored}


def task_settings(config: TrialConfig, task: str, is_drawn: bool, has_chosen: bool) -> Tree:
    """Returns an active task; `is_drawn` where some stage so far draws it by chance,
    `has_chosen` where chosen layers count."""
    settings = config.tasks[task]
    conditions = {
        **of_one_method(settings.losses, settings.loss),
        **of_one_method(settings.heads, settings.head),
        "probe_rows": settings.head_entry.is_linear,
        "probability_factor": is_drawn,
        "chosen_layers": has_chosen,
    }
    return leave_out(settings, conditions)


def optimizer_settings(config: TrialConfig, has_chosen: bool) -> Tree:
    """Rates and decay, with the head's rate as a number."""
    optimizer = config.optimizer
    conditions = {
        "warmup_fraction": not optimizer.is_constant,
        "decay_biases_and_norms": optimizer.weight_decay > 0,
        "chosen_scale": has_chosen,
        "clip_norm": optimizer.clip_norm is not None,
    }
    head_rate = optimizer.head_learning_rate
    rates = {"head_learning_rate": optimizer.learning_rate if head_rate is None else head_rate}
    same = {"schedule": "constant"} if optimizer.is_constant else {}
    return leave_out(optimizer, conditions) | rates | same


def pals_settings(config: TrialConfig, tasks: tuple[str, ...]) -> Tree | None:
    """Projected attention, where an active task has it."""
    named = shared(config.pals.tasks, tasks)
    if config.pals.size == 0 or not named:
        return None
    return leave_out(config.pals, {"num_heads": config.pals.function == "attention"}) | {"tasks": named}


def penalty_settings(config: TrialConfig, name: str, tasks: tuple[str, ...]) -> Tree | None:
    """Returns a penalty's settings if an active task has it; before that, those that have an effect already."""
    penalty, settings = config.methods.penalties[name], config.penalties[name]
    if settings.weight == 0:
        return None
    named, tree = shared(settings.tasks, tasks), to_dict(settings)
    counted = tree | {"tasks": named} if named else {field: tree[field] for field in penalty.always_counts}
    inert = penalty.inert(settings)
    return {field: value for field, value in counted.items() if field not in inert} or None


def weighting_settings(config: TrialConfig, sums_tasks: bool) -> str | list[Any]:
    """Returns the loss weighting, with its settings;
    one that steps set weighs nothing before a stage sums tasks' losses."""
    weighting = config.weighting_entry
    if weighting.function is None:
        return config.loss_weighting
    return [config.loss_weighting, settings_of(weighting.settings, config)] if sums_tasks else "fixed"


def memory_layout(config: TrialConfig) -> Tree:
    """Returns what decides the order of weights in memory: several workers sum gradients bucket by bucket."""
    tasks, digests = config.active_tasks, digests_of_used_files(config, named_entries(config), ())
    return {
        "methods": digests,
        "tasks": {  # what decides the weights of a head
            task: pick(own, ("loss", "encoding", "head", *fields_of([own.head_entry.settings])))
            for task, own in config.tasks.items()
            if task in tasks
        },
        "pals": to_dict(config.pals) | {"tasks": shared(config.pals.tasks, tasks)} if config.pals.size > 0 else None,
        "relational_tasks": shared(config.relational_tasks, tasks),
        "projection": config.simcse.projection if config.simcse.weight > 0 else None,
        "loss_weighting": "fixed" if config.weighting_entry.regularizer is None else config.loss_weighting,
    }
