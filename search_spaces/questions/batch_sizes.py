"""Which batch sizes for SST, QQP and STS, with SMART at the weight that table 6 prefers?

Command:  python sweeps/run.py --space batch_sizes
Cost:     4 trials of 15 epochs, each step with the penalty. With BERT-base and the course's data a GPU is needed; the
          smaller a task's batches, the more steps.
Expected: BERT and Beyond, table 5 (SST-QQP-STS, overall dev score): 32-16-32 .783 (epoch 15), 8-16-8 .789 (3),
          16-16-16 .789 (8), 16-16-10 .790 (5). The last three are a thousandth apart: no difference is to be expected
          among them. The row 8-16-8 equals the row .3 of table 6, which says batches of 16.
Answer:   With MiniLM, 600 steps and three trainings each: overall .701, .682, .695, .689. At equal steps 8-16-8
          is worse than 16-16-16, and it and 16-16-10 than 32-16-32, with fewer rows seen; the rest is not decided
          (docs/results_on_papers.md).

With data of other tasks: 4 trials with the same size for all tasks, around `presets.general`.
"""

from collections.abc import Mapping

from mtlib.tasks import Task
from search_spaces.presets import bert_and_beyond, by_task, general, joined_name
from search_spaces.published import BERT_AND_BEYOND, published_table
from search_spaces.space import SearchSpace

SIZES = ((32, 16, 32), (8, 16, 8), (16, 16, 16), (16, 16, 10))
"""SST, QQP, STS, in the order of the table."""

TABLE_5 = published_table(
    BERT_AND_BEYOND,
    "table 5",
    training="epochs not clear (a maximum is at 15), rate 2e-5, SMART at .45",
    keys=("batch_sizes",),
    columns=("sst", "qqp", "sts", "overall", "epoch"),
    rows=(
        ("32-16-32", 0.521, 0.888, 0.878, 0.783, 15),
        ("8-16-8", 0.533, 0.888, 0.892, 0.789, 3, "equals the row .3 of table 6, which has batches of 16"),
        ("16-16-16", 0.530, 0.894, 0.886, 0.789, 8, "table 6 has other scores for this setting, row .45"),
        ("16-16-10", 0.540, 0.888, 0.885, 0.790, 5, "equals the row .45 of table 6, which has batches of 16"),
    ),
)

SPACE = SearchSpace(
    name="batch_sizes",
    question="Which batch sizes for SST, QQP and STS?",
    base=bert_and_beyond().override({"smart.weight": 0.45}),
    grid={"batch_sizes": {joined_name(sizes): by_task("batch_size", sizes) for sizes in SIZES}},
    published=(TABLE_5,),
)


def make_space(tasks: Mapping[str, Task]) -> SearchSpace:
    """Returns the question about other tasks: one size for all of them."""
    return SearchSpace(
        name="batch_sizes",
        question="Which batch size, the same for all tasks?",
        base=general(tasks),
        grid={"tasks.*.batch_size": (8, 16, 32, 64)},
    )
