"""Should lower layers learn more slowly than upper ones when three tasks are trained at once?

Command:  python sweeps/run.py --space layer_decay
Cost:     6 trials of 10 epochs, each over all rows of all tasks. With BERT-base and the course's data a GPU is needed.
Expected: Triple Threat, table 10 (overall dev score): .761 at 1, .760 at .95, .747 at .9, .750 at .85, .745 at .8,
          .743 at .75: no gain, and a loss from .9 down. Sun et al. 2019 had found .95 best for a single task.
Answer:   open; no run of ours on the course's full data yet.

With data of other tasks the base is `presets.general`.
"""

import dataclasses
from collections.abc import Mapping

from mtlib.tasks import Task
from search_spaces.domain import Float
from search_spaces.presets import general, triple_threat
from search_spaces.space import SearchSpace

SPACE = SearchSpace(
    name="layer_decay",
    question="Should lower layers learn more slowly than upper ones?",
    base=triple_threat(),
    grid={"optimizer.layer_decay": (1.0, 0.95, 0.9, 0.85, 0.8, 0.75)},
    ranges={"optimizer.layer_decay": Float(low=0.75, high=1.0)},
)


def make_space(tasks: Mapping[str, Task]) -> SearchSpace:
    """The question about other tasks."""
    return dataclasses.replace(SPACE, base=general(tasks))
