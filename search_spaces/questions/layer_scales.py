"""Does it help to train each task's four best layers faster, or the other eight more slowly?

Command:  python sweeps/run.py --space layer_scales --data DIR
Cost:     5 trials of 10 epochs, each over all rows of all tasks. Needs an encoder of 12 layers, such as BERT-base, and
          so a GPU; the demonstration's encoder has 3 and is refused.
Expected: Triple Threat, table 11 (alpha of the other eight, beta of the four: overall dev score): 1, 1 .761;
          0, 1 .703; 1, 2 .763; 1, 3 .755; .5, 1 .755. Freezing the others costs most; nothing clearly helps.
Answer:   open; no run of ours on the course's full data yet.

A layer's rate can follow the task only where a step has one task, so steps alternate here; the paper does not say how
it scaled rates by task in its summed steps.
"""

from search_spaces.presets import BEST_LAYERS, by_task, triple_threat
from search_spaces.published import TRIPLE_THREAT, published_table
from search_spaces.space import SearchSpace

TABLE_11 = published_table(
    TRIPLE_THREAT,
    "table 11",
    training="10 epochs, rate 1e-5, batches of 16, one step per round",
    keys=("optimizer.other_scale", "optimizer.chosen_scale"),
    columns=("sst", "qqp", "sts", "overall"),
    rows=(
        (1.0, 1.0, 0.520, 0.836, 0.851, 0.761),
        (0.0, 1.0, 0.400, 0.811, 0.799, 0.703),
        (1.0, 2.0, 0.517, 0.851, 0.841, 0.763),
        (1.0, 3.0, 0.504, 0.843, 0.837, 0.755),
        (0.5, 1.0, 0.502, 0.845, 0.838, 0.755),
    ),
)

SPACE = SearchSpace(
    name="layer_scales",
    question="Should each task's best layers learn faster than the others?",
    base=triple_threat().override({"stages.0.sum_losses": False, **by_task("chosen_layers", BEST_LAYERS)}),
    grid={
        ("optimizer.other_scale", "optimizer.chosen_scale"): (
            (1.0, 1.0),
            (0.0, 1.0),
            (1.0, 2.0),
            (1.0, 3.0),
            (0.5, 1.0),
        )
    },
    published=(TABLE_11,),
)
