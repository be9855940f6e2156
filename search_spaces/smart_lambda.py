"""How strongly should SMART's smoothness penalty count, when it is on SST and QQP only?

Command:  python sweeps/run.py --space smart_lambda
Cost:     7 trials of 15 epochs; the penalty doubles the cost of a step. With the demonstration corpus and encoder about
          2 minutes on 2 cores; with BERT-base and the course's data a GPU is needed.
Expected: BERT and Beyond, table 6 (BERT-base, the course's data): overall dev score .781 at 0, .790 at .45, .789 at 3;
          the penalty keeps SST train from .952 at its best epoch down to .818 to .874 for .3 to .5, not for .7 to 3.
Answer:   open; no run of ours on the course's full data yet.

With data of other tasks the base is `presets.general`, and the penalty is on the tasks with classes.
"""

import dataclasses
from collections.abc import Mapping

from mtlib.tasks import Task
from search_spaces.domain import Float
from search_spaces.presets import bert_and_beyond, general
from search_spaces.space import SearchSpace

SPACE = SearchSpace(
    name="smart_lambda",
    question="How strongly should SMART count, when it is on SST and QQP only?",
    base=bert_and_beyond(),
    grid={"smart.weight": (0.0, 0.3, 0.45, 0.5, 0.7, 1.0, 3.0)},
    ranges={"smart.weight": Float(low=0.0, high=3.0)},
)


def make_space(tasks: Mapping[str, Task]) -> SearchSpace:
    """The question about other tasks; the penalty is on those with classes, or on all if there are none."""
    return dataclasses.replace(SPACE, question="How strongly should SMART's penalty count?", base=general(tasks))
