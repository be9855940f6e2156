"""Does a ReLU layer in each task's head help, and how wide should it be?

Command:  python sweeps/run.py --space hidden_units
          python sweeps/run.py --space hidden_units --set stages.0.epochs=50      # table 14
Cost:     6 trials of 10 epochs, each over all rows of all tasks. With BERT-base and the course's data a GPU is needed.
Expected: Triple Threat, table 13, 10 epochs (overall dev score): none .761, 10 units .760, 20 .754, 40 .751, 80 .761,
          120 .760. Table 14, 50 epochs: none .769, 10 .764, 20 .768, 40 .769, 80 .769, 120 .777.
Answer:   open; no run of ours on the course's full data yet.
"""

from search_spaces.presets import by_task, triple_threat
from search_spaces.space import SearchSpace

UNITS = (None, 10, 20, 40, 80, 120)

SPACE = SearchSpace(
    name="hidden_units",
    question="Does a ReLU layer in each head help, and how wide?",
    base=triple_threat(),
    grid={"hidden_units": {str(units).lower(): by_task("hidden_units", (units,) * 3) for units in UNITS}},
)
