"""Which single layer of the encoder serves each task best, trained alone with the task's head?

Command:  python sweeps/run.py --space layers_alone --data DIR
Cost:     36 trials of 10 epochs over all rows of one task: 12 each of SST, QQP and STS; those of QQP take nearly all
          the time. Needs an encoder of 12 layers, such as BERT-base, and so a GPU; the demonstration's encoder has 3
          and is refused.
Expected: Triple Threat, table 5 (layers 0 to 11). SST: .416 .418 .457 .439 .453 .437 .471 .456 .497 .502 .503 .490;
          QQP: .722 .781 .794 .796 .782 .772 .751 .792 .803 .770 .783 .784; STS: .808 .815 .808 .808 .837 .827 .825 .828
          .823 .808 .788 .778. The last layers are best for SST, middle ones for pairs. The space `layer_scales` uses
          the best four.
Answer:   open; no run of ours on the course's full data yet.

Compare trials of one task only, in its own column: each trial's overall score is of its one task, (1 + r) / 2 for STS,
so STS leads the ranking and the marks compare others with it. No `--scheduler asha` here, for the same reason.

Each task is trained on its own, as in 4.5, at the settings up to 5.2: no weights of losses yet.
"""

from mtlib.config.training import StageConfig
from search_spaces.presets import ALL_TASKS, by_task, triple_threat
from search_spaces.published import TRIPLE_THREAT, published_table
from search_spaces.space import SearchSpace

BERT_BASE_LAYERS = 12

TABLE_5 = published_table(
    TRIPLE_THREAT,
    "table 5",
    training="each task alone, 10 epochs, rate 1e-5, batches of 16",
    task_key="task",
    keys=("layer",),
    columns=("sst", "qqp", "sts"),
    rows=(
        ("0", 0.416, 0.722, 0.808),
        ("1", 0.418, 0.781, 0.815),
        ("2", 0.457, 0.794, 0.808),
        ("3", 0.439, 0.796, 0.808),
        ("4", 0.453, 0.782, 0.837),
        ("5", 0.437, 0.772, 0.827),
        ("6", 0.471, 0.751, 0.825),
        ("7", 0.456, 0.792, 0.828),
        ("8", 0.497, 0.803, 0.823),
        ("9", 0.502, 0.770, 0.808),
        ("10", 0.503, 0.783, 0.788),
        ("11", 0.490, 0.784, 0.778),
    ),
)

SPACE = SearchSpace(
    name="layers_alone",
    question="Which single layer serves each task best, trained alone?",
    base=triple_threat().override(by_task("loss_weight", (1.0, 1.0, 1.0))),
    grid={
        "task": {task: {"stages": (StageConfig(tasks=(task,), epochs=10),)} for task in ALL_TASKS},
        "layer": {str(layer): {"encoder.trained_layers": (layer,)} for layer in range(BERT_BASE_LAYERS)},
    },
    published=(TABLE_5,),
)
