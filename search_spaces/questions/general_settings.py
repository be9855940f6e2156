"""What does each of the settings to start with, `presets.general`, do?

Command:  python sweeps/run.py --space general_settings --replicates 5 --data DIR --encoder DIR
Cost:     17 trials of 5 epochs and as many for each further replicate; `--set stages.0.epochs=1
          stages.0.steps_per_epoch=600` for shorter ones.
Expected: No paper has these settings. Mean pooling, a rate of its own for the heads and a lower one for each layer
          further down are from Sun et al. 2019 and Howard and Ruder 2018.
Answer:   With MiniLM on SST, QQP and STS, 240 steps and two trainings each: pairs in one input only cost .025
          overall, the first token instead of the mean .020, heads at random .020, batches of 16 .010, all
          significantly. The other changes lie between -.003 and +.001, none significant
          (docs/measurements/training_settings.md).

One setting is changed at a time. With data of other tasks: the changes that apply to them.
"""

from collections.abc import Mapping
from typing import Any

from mtlib.tasks import TASKS, Task
from search_spaces.presets import general
from search_spaces.space import SearchSpace


def changes(tasks: Mapping[str, Task]) -> dict[str, dict[str, Any]]:
    """Returns the changes of the settings for some tasks by name, each by dotted key."""
    base = general(tasks)
    rate, names = base.optimizer.learning_rate, base.active_tasks
    regressions = [name for name in names if tasks[name].is_regression]
    pairs = [name for name in names if tasks[name].is_pair]
    found: dict[str, dict[str, Any]] = {
        "none": {},
        "batches_of_16": {f"tasks.{name}.batch_size": 16 for name in names},
        "random_heads": {f"tasks.{name}.probe_rows": 0 for name in names},
        "first_token": {f"tasks.{name}.pooling": "cls" for name in names},
        "dropout": {"encoder.dropout": None},
        "half_rate": {"optimizer.learning_rate": rate / 2},
        "double_rate": {"optimizer.learning_rate": rate * 2},
        "one_rate_for_all_layers": {"optimizer.layer_decay": 1.0},
        "lower_rates_for_lower_layers": {"optimizer.layer_decay": 0.8},
        "heads_at_the_rate_of_the_encoder": {"optimizer.head_learning_rate": None},
        "constant_rate": {"optimizer.schedule": "constant"},
        "short_warmup": {"optimizer.warmup_fraction": 0.001},
        "decay_of_biases_and_norms": {"optimizer.decay_biases_and_norms": True},
    }
    if regressions:
        found["raw_targets"] = {f"tasks.{name}.target_scale": "raw" for name in regressions}
    if pairs:
        found["pairs_in_one_input"] = {f"tasks.{name}.encoding": "cross" for name in pairs}
    if len(names) > 1:
        found["learned_loss_weights"] = {"loss_weighting": "uncertainty"}
        found["any_number_of_passes"] = {"stages.0.order": "sampled_round_robin"}
    return found


def make_space(tasks: Mapping[str, Task]) -> SearchSpace:
    """Returns the question about some tasks."""
    return SearchSpace(
        name="general_settings",
        question="What does each of the general settings do?",
        base=general(tasks),
        grid={"change": changes(tasks)},
    )


SPACE = make_space(TASKS)
