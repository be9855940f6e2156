"""How should the two texts of a pair enter the encoder?

Command:  python sweeps/run.py --space encodings
Cost:     5 trials of 10 epochs, each over all rows of all tasks; a bi-encoder runs the encoder twice on shorter texts.
          With BERT-base and the course's data a GPU is needed.
Expected: Triple Threat, table 2 (SST, QQP, STS, overall): bi .520 .740 .375 .649; cross_no_separator .506 .782 .846
          .737; cross .491 .776 .821 .726. BERT and Beyond, table 1 (QQP, STS): bi .712 .324; cross with cosine for STS
          .840 .612; cross .832 .873. Tuning Up BERT, table 1 (QQP, STS, single tasks): cosine .605 .544; cross .905
          .896. All agree that the texts must meet inside the encoder; only one compares with and without separator.
Answer:   open; no run of ours on the course's full data yet.

All five at the settings of Triple Threat's table 2, where losses were not weighted yet.
"""

from typing import Any

from search_spaces.presets import PAIR_TASKS, by_task, triple_threat
from search_spaces.space import SearchSpace


def pairs(encodings: tuple[str, str], heads: tuple[str, str], is_projected: bool = True) -> dict[str, Any]:
    """Encodings and heads of QQP and STS; `is_projected` says whether a cosine is of projected vectors."""
    return {
        **by_task("encoding", encodings, PAIR_TASKS),
        **by_task("head", heads, PAIR_TASKS),
        **by_task("cosine_projection", (is_projected, is_projected), PAIR_TASKS),
    }


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
)
