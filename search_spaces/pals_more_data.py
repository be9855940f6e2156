"""Do further data, a slanted triangular rate and a relational layer add to PALs, annealed sampling and SimCSE?

Command:  python sweeps/run.py --space pals_more_data --data DIR
Cost:     4 trials of 3 epochs of 1800 steps. With BERT-base and the course's data a GPU is needed. DIR must also hold
          `ids-cfimdb-train.csv` and `snli-train.csv`; the demonstration has no such files.
Expected: My PAL BERT, table 3 (SST, QQP, STS, overall): 3 SimCSE .516 .862 .866 .770; 4 data .446 .859 .865 .746;
          5 rate .466 .860 .860 .752; 6 relational .442 .861 .853 .743. The paper blames CFIMDB, whose labels are
          only the outermost two, for the loss on SST.
Answer:   open; no run of ours on the course's full data yet.
"""

from mtlib.config.training import StageConfig
from search_spaces.presets import ALL_TASKS, PAIR_TASKS, my_pal_bert
from search_spaces.space import SearchSpace

MORE_DATA = {
    "stages": (
        StageConfig(tasks=ALL_TASKS, extra_data=("cfimdb", "snli"), order="annealed", epochs=3, steps_per_epoch=1800),
    )
}
TRIANGULAR = {"optimizer.schedule": "slanted_triangular", "optimizer.warmup_fraction": 0.1}

SPACE = SearchSpace(
    name="pals_more_data",
    question="Do further data, a triangular rate and a relational layer add to PALs?",
    base=my_pal_bert(),
    grid={
        "model": {
            "3_simcse": {},
            "4_data": MORE_DATA,
            "5_rate": {**MORE_DATA, **TRIANGULAR},
            "6_relational": {**MORE_DATA, **TRIANGULAR, "relational_tasks": PAIR_TASKS},
        }
    },
)
