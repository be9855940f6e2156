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
          .594 .665, epoch_round_robin .616 .760, batch_round_robin_summed .649 .761. Tuning Up BERT, table 4: uniform
          .783, annealed .791, uniform_smart .784, annealed_smart .787, uniform_from_qqp .791. Papers differ in more
          than the order, so only numbers of one paper can be compared; here all else is equal. Triple Threat's
          single-task rows are in the space `baselines`.
Answer:   With MiniLM, 600 batches and three trainings each: one task after another has the lowest score (.666), as
          published, and varies most; four of nine others are better, not those of Triple Threat. The others lie
          from .701 to .720 overall, without a significant difference. SMART and annealed sampling lower STS
          (docs/results_on_papers.md).

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
from search_spaces.published import BERT_AND_BEYOND, TRIPLE_THREAT, TUNING_UP_BERT_SYNTHETIC, published_table
from search_spaces.space import SearchSpace

UNIFORM_ORDER = StageConfig(tasks=ALL_TASKS, order="uniform", epochs=25, steps_per_epoch=1000)
ANNEALED = StageConfig(tasks=ALL_TASKS, order="annealed", epochs=25, steps_per_epoch=1000)
FROM_BEST = StageConfig(tasks=ALL_TASKS, order="uniform", epochs=25, steps_per_epoch=1000, start_from="best")
"""Tuning Up BERT, 5.2 and 5.4."""

TABLE_2 = published_table(
    BERT_AND_BEYOND,
    "table 2",
    training="epochs not given, rate 2e-5, batches of 16-16-10",
    keys=("order",),
    columns=("sst", "qqp", "sts", "overall"),
    rows=(
        ("sampled_round_robin", 0.510, 0.847, 0.876, 0.765),
        ("max_size_cycle", 0.500, 0.873, 0.879, 0.772, "its scores give .771 overall"),
        ("staggered", 0.519, 0.887, 0.876, 0.781),
    ),
    note="Training took 57, 243 and 81 minutes.",
)
TABLE_1 = published_table(
    TRIPLE_THREAT,
    "table 1",
    training="10 epochs of each task, rate 1e-5, batches of 16, bi-encoded pairs",
    keys=("order",),
    columns=("sst", "qqp", "sts", "overall"),
    rows=(
        ("sequential", 0.411, 0.691, 0.361, 0.594),
        ("epoch_round_robin", 0.489, 0.683, 0.354, 0.616),
        ("batch_round_robin_summed", 0.520, 0.740, 0.375, 0.649),
    ),
    note="The single-task models are in the space baselines.",
)
TABLE_8 = published_table(
    TRIPLE_THREAT,
    "table 8",
    training="10 epochs of each task, rate 1e-5, batches of 16, pairs as one text, weighted losses",
    keys=("order",),
    columns=("sst", "qqp", "sts", "overall"),
    rows=(
        ("sequential", 0.378, 0.688, 0.856, 0.665),
        ("epoch_round_robin", 0.507, 0.861, 0.825, 0.760),
        ("batch_round_robin_summed", 0.520, 0.836, 0.851, 0.761),
    ),
    note="The single-task models are in the space baselines.",
)
TABLE_4 = published_table(
    TUNING_UP_BERT_SYNTHETIC,
    "table 4",
    training="25 epochs of 1,000 steps, rate 1e-5, batches of 16",
    keys=("order",),
    columns=("sst", "qqp", "sts", "overall"),
    rows=(
        ("uniform", 0.518, 0.881, 0.900, 0.783),
        ("annealed", 0.534, 0.895, 0.888, 0.791),
        ("uniform_smart", 0.529, 0.875, 0.900, 0.784),
        ("annealed_smart", 0.530, 0.885, 0.894, 0.787),
        ("uniform_from_qqp", 0.526, 0.901, 0.895, 0.791),
    ),
    note="The scores of the best model overall; the best of each task, in parentheses there, are left out.",
)

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
    published=(TABLE_2, TABLE_1, TABLE_8, TABLE_4),
)


def make_space(tasks: Mapping[str, Task]) -> SearchSpace:
    """Returns the question about other tasks: every order, each for the same number of steps."""
    require(len(tasks) > 1, "orders compares the orders of at least 2 tasks", len(tasks))
    lengths = {"stages.0.steps_per_epoch": 400, "stages.0.epochs": max(5, len(tasks))}
    return SearchSpace(
        name="orders",
        question="In which order should batches of the tasks come?",
        base=general(tasks).override(lengths),
        grid={"stages.0.order": tuple(BATCH_ORDERS)},
    )
