r"""How strongly should SMART count when each task is trained alone?

Command:  python sweeps/run.py --space single_task_smart
          python sweeps/run.py --space single_task_smart --data DIR --set data.sources.paraphrases.task=sst \
              data.sources.paraphrases.path=sst-paraphrases.jsonl data.sources.paraphrases.role=augment
          The second adds synthetic sentences to SST, as in the table; see the space `synthetic_data`.
Cost:     9 trials: SST and STS 150 epochs of 50 steps, QQP 25 of 2500; the penalty doubles the cost of a step. With
          BERT-base and the course's data a GPU is needed.
Expected: Tuning Up BERT, table 3 (weights 0, 1, 3): SST .540 .543 .549 (with synthetic sentences; .530 without any or
          SMART, table 2); QQP .905 .904 .882; STS .896 .882 .894. Figure 4 has the curves of SST, train and dev: SMART
          slows over-fitting.
Answer:   With MiniLM, 600 steps and three trainings each, with weights 0, 1 and 3: SST .481, .483, .469 and QQP .813,
          .817, .807, no difference decided; STS .863, .857, .842, worse at 3. SST's train score falls from .606 to
          .548 (docs/results_on_papers.md).

Compare trials of one task only, in its own column: each trial's overall score is of its one task, (1 + r) / 2 for STS,
so STS leads the ranking and the marks compare others with it. No `--scheduler asha` here, for the same reason. The
penalty of SST and QQP is a symmetric divergence, that of STS a squared error (4.4). SST's differences in
table 3 are smaller than what three trainings and dev's examples tell apart, about .02.
"""

from search_spaces.presets import ALL_TASKS, tuning_up_bert, tuning_up_bert_alone
from search_spaces.published import TUNING_UP_BERT, TUNING_UP_BERT_SYNTHETIC, published_table
from search_spaces.space import SearchSpace

TABLE_3 = published_table(
    TUNING_UP_BERT_SYNTHETIC,
    "table 3",
    training="SST and STS 150 epochs of 50 steps, QQP 25 of 2,500, rate 1e-5, batches of 16",
    task_key="task",
    keys=("smart.weight",),
    columns=("sst", "qqp", "sts"),
    rows=(
        (0.0, 0.540, 0.905, 0.896),
        (1.0, 0.543, 0.904, 0.882),
        (3.0, 0.549, 0.882, 0.894),
    ),
)
TABLE_2 = published_table(
    TUNING_UP_BERT,
    "table 2",
    training="150 epochs of 50 steps, rate 1e-5, batches of 16",
    task_key="task",
    keys=("smart.weight",),
    columns=("sst",),
    rows=((0.0, 0.530),),
    note="SST without synthetic sentences; table 3 repeats the row with them.",
)

SPACE = SearchSpace(
    name="single_task_smart",
    question="How strongly should SMART count when each task is trained alone?",
    base=tuning_up_bert(),
    grid={
        "task": {task: {"stages": tuning_up_bert_alone(task)} for task in ALL_TASKS},
        "smart.weight": (0.0, 1.0, 3.0),
    },
    published=(TABLE_3, TABLE_2),
)
