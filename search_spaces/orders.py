r"""In which order should batches of three tasks of very different sizes come?

Command:  python sweeps/run.py --space orders
          python sweeps/run.py --space orders --set tasks.qqp.encoding=bi tasks.sts.encoding=bi \
              tasks.qqp.loss=binary_cross_entropy      # as in Triple Threat, table 1
          python sweeps/run.py --space orders --set tasks.qqp.encoding=cross_no_separator \
              tasks.sts.encoding=cross_no_separator tasks.qqp.loss=binary_cross_entropy \
              tasks.sst.loss_weight=0.1 tasks.sts.loss_weight=0.2      # as in its table 8
Cost:     12 trials of very different lengths, as in the papers: `--dry-run` lists the steps of each. The longest are
          max_size_cycle and the three of Triple Threat, which see all of QQP 10 times. With BERT-base and the course's
          data a GPU is needed.
Expected: Overall dev scores. BERT and Beyond, table 2: sampled_round_robin .765 (57 min), max_size_cycle .771 (243 min;
          printed as .772), staggered .781 (81 min). Triple Threat, tables 1 (bi-encoder) and 8 (improved): sequential
          .594 .665, epoch_round_robin .616 .760, batch_round_robin .649 .761. Tuning Up BERT, table 4: uniform .783,
          annealed .791, uniform_smart .784, annealed_smart .787, uniform_from_qqp .791. Papers differ in more than the
          order, so only numbers of one paper can be compared; here all else is equal. Triple Threat's single-task
          rows are in the space `baselines`.
Answer:   open; no run of ours on the course's full data yet.

All else is as in Tuning Up BERT (learning rate 1e-5, which Triple Threat has too). batch_round_robin alternates;
batch_round_robin_summed takes one step per round, as Triple Threat did. Its losses are not weighted here.

With data of other tasks, at least 2: a trial for each order around `presets.general`, all of 5 epochs (or as many as
tasks) of 400 steps; `--set stages.0.steps_per_epoch=100` for shorter ones.
"""

from collections.abc import Mapping

from mtlib.config.batch_orders import BATCH_ORDERS
from mtlib.config.training import StageConfig
from mtlib.runtime.errors import require
from mtlib.tasks import Task
from search_spaces.presets import (
    ALL_TASKS,
    general,
    staggered_fine_tuning,
    tuning_up_bert,
    tuning_up_bert_alone,
)
from search_spaces.space import SearchSpace

UNIFORM_ORDER = StageConfig(tasks=ALL_TASKS, order="uniform", epochs=25, steps_per_epoch=1000)
ANNEALED = StageConfig(tasks=ALL_TASKS, order="annealed", epochs=25, steps_per_epoch=1000)
FROM_BEST = StageConfig(tasks=ALL_TASKS, order="uniform", epochs=25, steps_per_epoch=1000, start_from="best")
"""Tuning Up BERT, 5.2 and 5.4."""

SPACE = SearchSpace(
    name="orders",
    question="In which order should batches of the three tasks come?",
    base=tuning_up_bert(),
    grid={
        "order": {
            "sampled_round_robin": {"stages": (StageConfig(tasks=ALL_TASKS, order="sampled_round_robin", epochs=15),)},
            "max_size_cycle": {  # 3: 4.3 times the hours of sampled_round_robin are 2 to 4 of these epochs
                "stages": (StageConfig(tasks=ALL_TASKS, order="max_size_cycle", epochs=3),)
            },
            "staggered": {"stages": staggered_fine_tuning(first_epochs=2, epochs=13)},
            "sequential": {"stages": tuple(StageConfig(tasks=(task,), epochs=10) for task in ALL_TASKS)},
            "epoch_round_robin": {  # 10 of each task
                "stages": (StageConfig(tasks=ALL_TASKS, order="epoch_round_robin", epochs=30),)
            },
            "batch_round_robin": {"stages": (StageConfig(tasks=ALL_TASKS, order="batch_round_robin", epochs=10),)},
            "batch_round_robin_summed": {
                "stages": (StageConfig(tasks=ALL_TASKS, order="batch_round_robin", sum_losses=True, epochs=10),)
            },
            "uniform": {"stages": (UNIFORM_ORDER,)},
            "annealed": {"stages": (ANNEALED,)},
            "uniform_smart": {"stages": (UNIFORM_ORDER,), "smart.weight": 3.0},
            "annealed_smart": {"stages": (ANNEALED,), "smart.weight": 3.0},
            "uniform_from_qqp": {"stages": (*tuning_up_bert_alone("qqp"), FROM_BEST)},
        }
    },
)


def make_space(tasks: Mapping[str, Task]) -> SearchSpace:
    """The question about other tasks: every order, each for the same number of steps."""
    require(len(tasks) > 1, "orders compares the orders of at least 2 tasks", len(tasks))
    lengths = {"stages.0.steps_per_epoch": 400, "stages.0.epochs": max(5, len(tasks))}
    return SearchSpace(
        name="orders",
        question="In which order should batches of the tasks come?",
        base=general(tasks).override(lengths),
        grid={"stages.0.order": tuple(BATCH_ORDERS)},
    )
