r"""Are learned weights or gradient methods better than the plain sum of the losses, at equal numbers of trials?

Command:  python sweeps/run.py --space surgery --replicates 3 --data DIR --encoder DIR
Cost:     16 trials of 5 epochs and as many for each further replicate. A step of FAMO takes a further forward pass; a
          gradient method takes a backward pass for each task, and the memory of as many gradients.
Expected: Kurin et al. 2022: the plain sum with the regularization of single-task training is as good as the methods.
          Xin et al. 2022: no method is better than a sum with weights that were tuned at the same cost.
Answer:   open; no run of ours on real data yet. On the demonstration with 2 epochs and two trainings each no group was
          shown to be better than the plain sum.

Four groups of four trials, all with the same steps, which sum the losses of the tasks that they hold:
- sum: as it is, with dropout, with ten times the weight decay, at twice the rate;
- tuned: one task in turn counts three times, then a third, the first four of these;
- learned: uncertainty, DWA (from the third epoch on), FAMO and STCH; IMTL-L is almost the first;
- surgery: PCGrad, GradVac, FairGrad and UPGrad.
Compare the best of each group: each is the best of four on dev, so none has an advantage of selection. With
`--replicates` the ranking's marks say which configurations may be the best. CAGrad, of an extra, and ExcessMTL, which
keeps the square of a gradient per task, are left out: `--vary gradients=...` compares any of them.
"""

from collections.abc import Mapping
from typing import Any

from mtlib.runtime.errors import require
from mtlib.tasks import TASKS, Task, in_order
from search_spaces.presets import general
from search_spaces.space import SearchSpace

NUM_TRIALS = 4
"""The trials of each group."""
LEARNED = ("uncertainty", "dwa", "famo", "stch")
SURGERY = ("pcgrad", "gradvac", "fairgrad", "upgrad")


def make_space(tasks: Mapping[str, Task]) -> SearchSpace:
    """Returns the question about some tasks, at least 2."""
    require(len(tasks) > 1, "surgery compares trainings of at least 2 tasks", len(tasks))
    base = general(tasks).override({"stages.0.sum_losses": True})
    optimizer = base.optimizer
    sums: dict[str, dict[str, Any]] = {
        "sum": {},
        "sum_dropout": {"encoder.dropout": 0.1},
        "sum_decay": {"optimizer.weight_decay": 10 * optimizer.weight_decay},
        "sum_double_rate": {"optimizer.learning_rate": 2 * optimizer.learning_rate},
    }
    tuned = {
        f"tuned_{task}_{title}": {f"tasks.{task}.loss_weight": weight}
        for title, weight in (("triple", 3.0), ("third", 1 / 3))
        for task in in_order(tasks)
    }
    return SearchSpace(
        name="surgery",
        question="Are learned weights or gradient methods better than the plain sum of the losses?",
        base=base,
        grid={
            "method": {
                **sums,
                **dict([*tuned.items()][:NUM_TRIALS]),
                **{f"learned_{name}": {"loss_weighting": name} for name in LEARNED},
                **{f"surgery_{name}": {"gradients": name} for name in SURGERY},
            }
        },
    )


SPACE = make_space(TASKS)
