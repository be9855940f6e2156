"""Should lower layers learn more slowly than upper ones when three tasks are trained at once?

Command:  python sweeps/run.py --space layer_decay
Cost:     6 trials of 10 epochs, each over all rows of all tasks. With BERT-base and the course's data a GPU is needed.
Expected: Triple Threat, table 10 (overall dev score): .761 at 1, .760 at .95, .747 at .9, .750 at .85, .745 at .8,
          .743 at .75: no gain, and a loss from .9 down. Sun et al. 2019 had found .95 best for a single task.
Answer:   With MiniLM, 200 rounds and three trainings each: overall .668, .667, .665, .664, .662, .659. As
          published, no gain is found; a loss from .8 down, at most half as large (docs/results_on_papers.md).

With data of other tasks the base is `presets.general`.
"""

import dataclasses
from collections.abc import Mapping

from mtlib.tasks import Task
from search_spaces.domain import Float
from search_spaces.presets import general, triple_threat
from search_spaces.published import TRIPLE_THREAT, published_table
from search_spaces.space import SearchSpace

TABLE_10 = published_table(
    TRIPLE_THREAT,
    "table 10",
    training="10 epochs, rate 1e-5, batches of 16, one step per round",
    keys=("optimizer.layer_decay",),
    columns=("sst", "qqp", "sts", "overall"),
    rows=(
        (1.0, 0.520, 0.836, 0.851, 0.761),
        (0.95, 0.528, 0.830, 0.846, 0.760),
        (0.9, 0.505, 0.819, 0.835, 0.747),
        (0.85, 0.513, 0.821, 0.832, 0.750),
        (0.8, 0.503, 0.816, 0.830, 0.745),
        (0.75, 0.505, 0.812, 0.824, 0.743),
    ),
    note="Table 4 repeats the first three rows.",
)

SPACE = SearchSpace(
    name="layer_decay",
    question="Should lower layers learn more slowly than upper ones?",
    base=triple_threat(),
    grid={"optimizer.layer_decay": (1.0, 0.95, 0.9, 0.85, 0.8, 0.75)},
    ranges={"optimizer.layer_decay": Float(low=0.75, high=1.0)},
    published=(TABLE_10,),
)


def make_space(tasks: Mapping[str, Task]) -> SearchSpace:
    """Returns the question about other tasks."""
    return dataclasses.replace(SPACE, base=general(tasks), published=())
