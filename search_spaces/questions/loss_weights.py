"""How should the losses of SST, QQP and STS be weighted where one step is taken on their sum?

Command:  python sweeps/run.py --space loss_weights
Cost:     5 trials of 10 epochs, each over all rows of all tasks. With BERT-base and the course's data a GPU is needed.
Expected: Triple Threat, table 9 (overall dev score): .1-1-.1 .760, .1-1-.2 .761, .1-2-.4 .765, .1-3-.6 .761,
          .1-1-.4 .760. All within .005; the standard error over dev examples alone is about as large. The first
          row's STS of .430 is a slip: its overall score is that of about .84. The unweighted sum (table 3) is
          `cross_no_separator` in the space `encodings`.
Answer:   open; no run of ours on the course's full data yet.

With data of other tasks, at least 2: all weights 1, then each task in turn at .5 and 2, around `presets.general`.
"""

from collections.abc import Mapping

from mtlib.runtime.errors import require
from mtlib.tasks import Task, in_order
from search_spaces.presets import by_task, general, joined_name, triple_threat
from search_spaces.published import TRIPLE_THREAT, published_table
from search_spaces.space import SearchSpace

TASK_WEIGHTS = ((0.1, 1.0, 0.1), (0.1, 1.0, 0.2), (0.1, 2.0, 0.4), (0.1, 3.0, 0.6), (0.1, 1.0, 0.4))
"""SST, QQP, STS, in the order of the table."""

TABLE_9 = published_table(
    TRIPLE_THREAT,
    "table 9",
    training="10 epochs, rate 1e-5, batches of 16, one step per round",
    keys=("loss_weights",),
    columns=("sst", "qqp", "sts", "overall"),
    rows=(
        ("0.1-1-0.1", 0.524, 0.835, 0.430, 0.760, "STS must be about .842 for this overall score"),
        ("0.1-1-0.2", 0.520, 0.836, 0.851, 0.761),
        ("0.1-2-0.4", 0.529, 0.841, 0.850, 0.765),
        ("0.1-3-0.6", 0.515, 0.842, 0.852, 0.761),
        ("0.1-1-0.4", 0.517, 0.833, 0.857, 0.760),
    ),
    note="Table 3 repeats .1-2-.4; its unweighted row is in the space encodings.",
)

SPACE = SearchSpace(
    name="loss_weights",
    question="How should the losses of SST, QQP and STS be weighted in their sum?",
    base=triple_threat(),
    grid={"loss_weights": {joined_name(weights): by_task("loss_weight", weights) for weights in TASK_WEIGHTS}},
    published=(TABLE_9,),
)


def make_space(tasks: Mapping[str, Task]) -> SearchSpace:
    """Returns the question about other tasks: each task in turn counts half or twice."""
    require(len(tasks) > 1, "loss_weights compares the weights of at least 2 tasks", len(tasks))
    changed = {
        f"{task}_{title}": {f"tasks.{task}.loss_weight": weight}
        for task in in_order(tasks)
        for title, weight in (("half", 0.5), ("double", 2.0))
    }
    return SearchSpace(
        name="loss_weights",
        question="How should the losses of the tasks be weighted?",
        base=general(tasks),
        grid={"loss_weights": {"equal": {}, **changed}},
    )
