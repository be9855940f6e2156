"""Which batch sizes, loss weights, SMART settings and layer-wise rates are best together?

Command:  python sweeps/run.py --space joint --search tpe --trials 60 --scheduler asha --replicates 3
Cost:     As many trials of 15 epochs as `--trials`, fewer epochs where the scheduler stops them. With BERT-base and the
          course's data a GPU is needed; with a handful of trials TPE is no better than chance.
Expected: The papers searched these one at a time: batch sizes moved the overall dev score by .007 (BERT and Beyond,
          table 5), SMART's weight by .009 (table 6), loss weights by .005 (Triple Threat, table 9), layer decay by
          .018, all of it downward (table 10). No paper searches them together.
Answer:   open; no run of ours on the course's full data yet.

Some keys matter only beside certain values of others and are drawn only there: fixed weights where they are not
learned, a gradient method where losses are summed, ascent steps where SMART takes any, the radius where it projects.
The penalty is averaged over the batch, so that its weight does not mean another thing with each batch size. With data
of other tasks the base is `presets.general`.
"""

from collections.abc import Mapping

from mtlib.config.trial import TrialConfig
from mtlib.tasks import Task
from search_spaces.domain import Choice, Condition, Float, Int, Range, SearchKey
from search_spaces.presets import bert_and_beyond, general
from search_spaces.space import SearchSpace

WHERE_FIXED = Condition(key="loss_weighting", values=("fixed",))


def joint(base: TrialConfig, stage: int) -> SearchSpace:
    """Returns the space around a base whose tasks are trained together in one of its stages, by its number."""
    tasks, sum_losses = base.active_tasks, f"stages.{stage}.sum_losses"
    together: dict[SearchKey, Range] = {
        "loss_weighting": Choice(values=("fixed", "uncertainty")),
        **{f"tasks.{task}.loss_weight": Float(low=0.1, high=3.0, log=True) for task in tasks},
        sum_losses: Choice(values=(False, True)),
        "gradients": Choice(values=("sum", "pcgrad", "imtl_g", "aligned_mtl")),
    }
    conditions: dict[SearchKey, Condition] = {
        **{f"tasks.{task}.loss_weight": WHERE_FIXED for task in tasks},
        "gradients": Condition(key=sum_losses, values=(True,)),
    }
    return SearchSpace(
        name="joint",
        question="Which batch sizes, loss weights, SMART and layer-wise rates are best together?",
        base=base,
        ranges={
            **{f"tasks.{task}.batch_size": Choice(values=(8, 16, 32)) for task in tasks},
            **(together if len(tasks) > 1 else {}),
            "smart.weight": Float(low=0.0, high=3.0),
            "smart.mode": Choice(values=("unit_norm", "paper", "random")),
            "smart.num_steps": Int(low=1, high=3),
            "smart.epsilon": Float(low=1e-5, high=1e-3, log=True),
            "optimizer.layer_decay": Float(low=0.75, high=1.0),
        },
        conditions={
            **(conditions if len(tasks) > 1 else {}),
            "smart.num_steps": Condition(key="smart.mode", values=("unit_norm", "paper")),
            "smart.epsilon": Condition(key="smart.mode", values=("paper",)),
        },
    )


SPACE = joint(bert_and_beyond().override({"smart.reduction": "mean"}), stage=1)


def make_space(tasks: Mapping[str, Task]) -> SearchSpace:
    """Returns the question about other tasks; of one alone without weights and gradient methods."""
    return joint(general(tasks).override({"smart.reduction": "mean"}), stage=0)
