"""Do projected attention layers help, and annealed sampling and SimCSE on top of them?

Command:  python sweeps/run.py --space pals
Cost:     4 trials: 3 epochs of 1800 steps, the baseline 3 epochs over all rows, about 29,000 steps. With BERT-base and
          the course's data a GPU is needed.
Expected: My PAL BERT, table 3 (SST, QQP, STS, overall): 0 baseline .361 .763 .224 .579; 1 PALs .424 .863 .840 .736;
          2 annealed .490 .861 .866 .761; 3 SimCSE .516 .862 .866 .770. Table 1 has .458 .740 .303 .616 for the
          baseline. From 0 to 1 the encoding changes too, from two texts apart to a pair together (4.1), which alone
          explains most of it: see the space `encodings`.
Answer:   With MiniLM, 600 steps and three trainings each: overall .555, .717, .708, .708. Nearly all the gain from 0
          to 1 is there without PALs (.708, two trainings); annealed sampling and SimCSE are not decided
          (docs/results_on_papers.md).

Models 4 to 6 need two further files: see the space `pals_more_data`. The baseline trains SST, QQP and STS one after
another in full in each epoch (4.2), against 1800 steps an epoch elsewhere. The order of model 1 is not given: here the
round robin of 4.1, for the same number of steps. With `stages.*.steps_per_epoch` the baseline divides each epoch among
the three, in proportion to their batches.

With data of other tasks: `presets.general` without PALs, with attention of width 204, with low-rank layers of width
100.
"""

from collections.abc import Mapping

from mtlib.config.training import StageConfig
from mtlib.tasks import Task
from search_spaces.presets import ALL_TASKS, PAIR_TASKS, by_task, general, my_pal_bert
from search_spaces.published import MY_PAL_BERT, published_table
from search_spaces.space import SearchSpace

IN_TURN = (StageConfig(tasks=ALL_TASKS, order="sequential", epochs=3),)
ROUNDS = (StageConfig(tasks=ALL_TASKS, order="smallest_round_robin", epochs=3, steps_per_epoch=1800),)
NO_PALS = {"pals.size": 0, **by_task("encoding", ("bi", "bi"), PAIR_TASKS)}

TABLE_3 = published_table(
    MY_PAL_BERT,
    "table 3",
    training="3 epochs of 1,800 steps, rate 2e-5, batches of 16",
    keys=("model",),
    columns=("sst", "qqp", "sts", "overall"),
    rows=(
        ("0_baseline", 0.361, 0.763, 0.224, 0.579, "table 1 has .458 .740 .303, in all .616, for the baseline"),
        ("1_pals", 0.424, 0.863, 0.840, 0.736),
        ("2_annealed", 0.490, 0.861, 0.866, 0.761, "labelled BP1, which in the text is the next row"),
        ("3_simcse", 0.516, 0.862, 0.866, 0.770),
    ),
    note="Models 4 to 6 are in the space pals_more_data.",
)
TABLE_1 = published_table(
    MY_PAL_BERT,
    "table 1",
    training="all rows of each task in turn, rate 2e-5, batches of 16",
    keys=("model",),
    columns=("sst", "qqp", "sts", "overall"),
    rows=(("0_baseline", 0.458, 0.740, 0.303, 0.616, "table 3 has .361 .763 .224, in all .579, for the baseline"),),
)

SPACE = SearchSpace(
    name="pals",
    question="Do projected attention layers, annealed sampling and SimCSE help?",
    base=my_pal_bert(),
    grid={
        "model": {
            "0_baseline": {**NO_PALS, "simcse.weight": 0.0, "stages": IN_TURN},
            "1_pals": {"simcse.weight": 0.0, "stages": ROUNDS},
            "2_annealed": {"simcse.weight": 0.0},
            "3_simcse": {},
        }
    },
    published=(TABLE_3, TABLE_1),
)


def make_space(tasks: Mapping[str, Task]) -> SearchSpace:
    """Asks about other tasks: no modules, the paper's modules, or those of Stickland and Murray's code."""
    return SearchSpace(
        name="pals",
        question="Do projected attention layers help?",
        base=general(tasks),
        grid={
            "model": {
                "none": {},
                "attention": {"pals.size": 204},
                "low_rank": {"pals.size": 100, "pals.function": "low_rank", "pals.placement": "layer"},
            }
        },
    )
