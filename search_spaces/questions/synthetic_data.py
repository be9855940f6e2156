"""Do label-preserving paraphrases of SST's sentences help beside the real ones?

Command:  python sweeps/run.py --space synthetic_data --data DIR
Cost:     2 trials of 150 epochs of 50 steps on SST alone. With BERT-base a GPU is needed. DIR must also hold
          `sst-paraphrases.jsonl`: an object per line with `sentence` and `sentiment`, as from a language model that was
          asked to reword a train sentence and keep its sentiment; the demonstration has no such file.
Expected: Tuning Up BERT, table 2 (SST dev accuracy): real .530, real and 100,000 synthetic sentences .540; over-fitting
          remains (figure 4: curves of train and dev).
Answer:   open; no run of ours on the course's full data yet.

Both trials take as many steps: with 100,000 more sentences these are one pass over all rows, without them 14. The
standard error over dev examples alone is .015, more than the difference in table 2.
"""

from mtlib.config.data import SourceConfig
from search_spaces.presets import tuning_up_bert, tuning_up_bert_alone
from search_spaces.published import TUNING_UP_BERT, published_table
from search_spaces.space import SearchSpace

PARAPHRASES = SourceConfig(task="sst", path="sst-paraphrases.jsonl", role="augment")

TABLE_2 = published_table(
    TUNING_UP_BERT,
    "table 2",
    training="150 epochs of 50 steps, rate 1e-5, batches of 16",
    keys=("train_data",),
    columns=("sst",),
    rows=(
        ("real", 0.530),
        ("real_and_synthetic", 0.540),
    ),
    note="The second with 100,000 synthetic sentences.",
)

SPACE = SearchSpace(
    name="synthetic_data",
    question="Do paraphrases of SST's sentences help beside the real ones?",
    base=tuning_up_bert().override({"stages": tuning_up_bert_alone("sst")}),
    grid={"train_data": {"real": {}, "real_and_synthetic": {"data.sources.paraphrases": PARAPHRASES}}},
    metric="sst",
    published=(TABLE_2,),
)
