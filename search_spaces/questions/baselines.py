r"""How far do a frozen encoder, single tasks, staggering, SMART and the dual objective each come?

Command:  python sweeps/run.py --space baselines
          python sweeps/run.py --space baselines --set optimizer.learning_rate=1e-5 optimizer.weight_decay=0 \
              tasks.sts.batch_size=16 tasks.qqp.encoding=bi tasks.sts.encoding=bi
          The second: single-task models of Triple Threat, table 1; with cross_no_separator for bi, of its table 8.
Cost:     7 trials: those of table 3's baselines have 10 epochs over all their rows, the others 15, most of them short.
          With BERT-base and the course's data a GPU is needed.
Expected: BERT and Beyond, table 3 (SST, QQP, STS, overall dev score): frozen .351 .655 .473 .581; single tasks .521
          .885 .876 .781; staggered fine-tuning (SFT) with SMART .525 .888 .878 .783; the dual objective too .540 .888
          .885 .790. Table 2, SFT alone: .519 .887 .876 .781. Triple Threat, single tasks: table 1 .511 .763 .345,
          table 8 .524 .870 .857.
Answer:   open; no run of ours on the course's full data yet.

Read the tasks' columns: a single-task trial's overall score is of its one task, (1 + r) / 2 for STS, so single_sts
leads the ranking and the marks compare others with it. Single tasks' scores as in table 3: the mean of those three
scores. No `--scheduler asha` here, which would stop SST for being harder than STS.

The frozen encoder's heads share nothing, so one trial holds all three. Batches are 16-16-10 (4.3). Table 3 does not
say its epochs; figure 2 and appendix A.2 have 10.
"""

from mtlib.config.training import StageConfig
from search_spaces.presets import ALL_TASKS, bert_and_beyond
from search_spaces.published import BERT_AND_BEYOND, TRIPLE_THREAT, published_table
from search_spaces.space import SearchSpace

SMART = {"smart.weight": 0.45}
DUAL = {"tasks.sst.loss": "dual_objective_cross_entropy"}
FROZEN = {
    "encoder.trained_layers": (),
    "optimizer.head_learning_rate": 1e-3,
    "stages": (StageConfig(tasks=ALL_TASKS, epochs=10),),
}

TABLE_3 = published_table(
    BERT_AND_BEYOND,
    "table 3",
    training="epochs not given, rate 2e-5 (frozen 1e-3), batches of 16-16-10",
    keys=("model",),
    columns=("sst", "qqp", "sts", "overall"),
    rows=(
        ("frozen", 0.351, 0.655, 0.473, 0.581),
        ("single_sst", 0.521, None, None, None),
        ("single_qqp", None, 0.885, None, None),
        ("single_sts", None, None, 0.876, None),
        ("sft_smart", 0.525, 0.888, 0.878, 0.783, "its scores give .784 overall; .521, as in table 5, gives .783"),
        ("sft_smart_dual", 0.540, 0.888, 0.885, 0.790),
    ),
    note="The single-task models are one row, overall .781. The first row is of other papers, table 4 of test data.",
)
TABLE_2 = published_table(
    BERT_AND_BEYOND,
    "table 2",
    training="epochs not given, rate 2e-5, batches of 16-16-10",
    keys=("model",),
    columns=("sst", "qqp", "sts", "overall"),
    rows=(("sft", 0.519, 0.887, 0.876, 0.781),),
    note="The other orders are in the space orders.",
)
TABLE_1 = published_table(
    TRIPLE_THREAT,
    "table 1",
    training="10 epochs, rate 1e-5, batches of 16, bi-encoded pairs",
    keys=("model",),
    columns=("sst", "qqp", "sts"),
    rows=(
        ("single_sst", 0.511, None, None),
        ("single_qqp", None, 0.763, None),
        ("single_sts", None, None, 0.345),
    ),
    note="The orders of all tasks are in the space orders.",
)
TABLE_8 = published_table(
    TRIPLE_THREAT,
    "table 8",
    training="10 epochs, rate 1e-5, batches of 16, pairs as one text",
    keys=("model",),
    columns=("sst", "qqp", "sts"),
    rows=(
        ("single_sst", 0.524, None, None),
        ("single_qqp", None, 0.870, None),
        ("single_sts", None, None, 0.857),
    ),
    note="The orders of all tasks are in the space orders.",
)

SPACE = SearchSpace(
    name="baselines",
    question="How far do frozen, single-task and staggered models, SMART and the dual objective come?",
    base=bert_and_beyond().override({"tasks.sts.batch_size": 10}),
    grid={
        "model": {
            "frozen": FROZEN,
            **{f"single_{task}": {"stages": (StageConfig(tasks=(task,), epochs=10),)} for task in ALL_TASKS},
            "sft": {},
            "sft_smart": SMART,
            "sft_smart_dual": {**SMART, **DUAL},
        }
    },
    published=(TABLE_3, TABLE_2, TABLE_1, TABLE_8),
)
