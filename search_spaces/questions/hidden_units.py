"""Does a ReLU layer in each task's head help, and how wide should it be?

Command:  python sweeps/run.py --space hidden_units
          python sweeps/run.py --space hidden_units --set stages.0.epochs=50      # table 14
Cost:     6 trials of 10 epochs, each over all rows of all tasks. With BERT-base and the course's data a GPU is needed.
Expected: Triple Threat, table 13, 10 epochs (overall dev score): none .761, 10 units .760, 20 .754, 40 .751, 80 .761,
          120 .760. Table 14, 50 epochs: none .769, 10 .764, 20 .768, 40 .769, 80 .769, 120 .777.
Answer:   open; no run of ours on the course's full data yet.
"""

from search_spaces.presets import by_task, triple_threat
from search_spaces.published import TRIPLE_THREAT, published_table
from search_spaces.space import SearchSpace

UNITS = (None, 10, 20, 40, 80, 120)

TABLE_13 = published_table(
    TRIPLE_THREAT,
    "table 13",
    training="10 epochs, rate 1e-5, batches of 16, one step per round",
    keys=("hidden_units",),
    columns=("sst", "qqp", "sts", "overall"),
    rows=(
        ("none", 0.520, 0.836, 0.851, 0.761),
        ("10", 0.519, 0.836, 0.848, 0.760),
        ("20", 0.509, 0.832, 0.843, 0.754),
        ("40", 0.491, 0.836, 0.851, 0.751),
        ("80", 0.525, 0.832, 0.852, 0.761),
        ("120", 0.518, 0.838, 0.849, 0.760),
    ),
)
TABLE_14 = published_table(
    TRIPLE_THREAT,
    "table 14",
    training="50 epochs, rate 1e-5, batches of 16, one step per round",
    keys=("hidden_units",),
    columns=("sst", "qqp", "sts", "overall"),
    rows=(
        ("none", 0.510, 0.869, 0.858, 0.769),
        ("10", 0.503, 0.861, 0.853, 0.764),
        ("20", 0.511, 0.870, 0.844, 0.768),
        ("40", 0.511, 0.871, 0.852, 0.769),
        ("80", 0.517, 0.867, 0.844, 0.769),
        ("120", 0.520, 0.876, 0.867, 0.777),
    ),
)

SPACE = SearchSpace(
    name="hidden_units",
    question="Does a ReLU layer in each head help, and how wide?",
    base=triple_threat(),
    grid={"hidden_units": {str(units).lower(): by_task("hidden_units", (units,) * 3) for units in UNITS}},
    published=(TABLE_13, TABLE_14),
)
