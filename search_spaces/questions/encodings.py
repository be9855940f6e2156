"""How should the two texts of a pair enter the encoder?

Command:  python sweeps/run.py --space encodings
Cost:     5 trials of 10 epochs, each over all rows of all tasks; a bi-encoder runs the encoder twice on shorter texts.
          With BERT-base and the course's data a GPU is needed.
Expected: Triple Threat, table 2 (SST, QQP, STS, overall): bi .520 .740 .375 .649; cross_no_separator .506 .782 .846
          .737; cross .491 .776 .821 .726. BERT and Beyond, table 1 (QQP, STS): bi .712 .324; cross with cosine for STS
          .840 .612; cross .832 .873. Tuning Up BERT, table 1 (QQP, STS, single tasks): cosine .605 .544; cross .905
          .896. All agree that the texts must meet inside the encoder; only one compares with and without separator.
Answer:   With MiniLM, 200 rounds and three trainings each: overall .704 (cross_no_separator), .701 (cross), .674
          (cross_and_cosine), .586 (bi), .553 (cosine). As published, pairs belong in one input; a cosine is
          better than a linear head on two vectors for STS, and worse for QQP; the separator is not decided
          (docs/results_on_papers.md).

All five at the settings of Triple Threat's table 2, where losses were not weighted yet.
"""

from typing import Any

from search_spaces.presets import PAIR_TASKS, by_task, triple_threat
from search_spaces.published import BERT_AND_BEYOND, TRIPLE_THREAT, TUNING_UP_BERT, published_table
from search_spaces.space import SearchSpace


def pairs(encodings: tuple[str, str], heads: tuple[str, str], is_projected: bool = True) -> dict[str, Any]:
    """Encodings and heads of QQP and STS; `is_projected` says whether a cosine is of projected vectors."""
    return {
        **by_task("encoding", encodings, PAIR_TASKS),
        **by_task("head", heads, PAIR_TASKS),
        **by_task("cosine_projection", (is_projected, is_projected), PAIR_TASKS),
    }


TABLE_2 = published_table(
    TRIPLE_THREAT,
    "table 2",
    training="10 epochs, rate 1e-5, batches of 16, one step per round",
    keys=("encoding",),
    columns=("sst", "qqp", "sts", "overall"),
    rows=(
        ("bi", 0.520, 0.740, 0.375, 0.649),
        ("cross_no_separator", 0.506, 0.782, 0.846, 0.737),
        ("cross", 0.491, 0.776, 0.821, 0.726),
    ),
    note="Table 1 repeats bi, table 3 cross_no_separator.",
)
TABLE_1_BERT_AND_BEYOND = published_table(
    BERT_AND_BEYOND,
    "table 1",
    training="epochs and tasks trained together not given, rate 2e-5",
    keys=("encoding",),
    columns=("qqp", "sts"),
    rows=(
        ("bi", 0.712, 0.324),
        ("cross_and_cosine", 0.840, 0.612),
        ("cross", 0.832, 0.873),
    ),
)
TABLE_1_TUNING_UP_BERT = published_table(
    TUNING_UP_BERT,
    "table 1",
    training="each task alone (QQP 25 epochs of 2,500 steps, STS 150 of 50), rate 1e-5, batches of 16",
    keys=("encoding",),
    columns=("qqp", "sts"),
    rows=(
        ("cosine", 0.605, 0.544),
        ("cross", 0.905, 0.896),
    ),
)

SPACE = SearchSpace(
    name="encodings",
    question="How should the two texts of a pair enter the encoder?",
    base=triple_threat().override(by_task("loss_weight", (1.0, 1.0, 1.0))),
    grid={
        "encoding": {
            "bi": pairs(("bi", "bi"), ("linear", "linear")),
            "cross_no_separator": pairs(("cross_no_separator", "cross_no_separator"), ("linear", "linear")),
            "cross": pairs(("cross", "cross"), ("linear", "linear")),
            "cross_and_cosine": pairs(("cross", "bi"), ("linear", "cosine"), is_projected=False),
            "cosine": pairs(("bi", "bi"), ("cosine", "cosine")),
        }
    },
    published=(TABLE_2, TABLE_1_BERT_AND_BEYOND, TABLE_1_TUNING_UP_BERT),
)
