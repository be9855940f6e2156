"""Configurations that each search draws, recorded: a command draws the same with every version that is allowed.

Optuna's TPE sorts the values of a key in an order that numpy leaves open where some are equal, as whole numbers are: it
depends on the processor (`findings/tpe_draws_depend_on_the_processor.sh`). Here equal ones stay in their order.

After an intended change, `python -m tests.sweeps.search.recorded_draws` records them again.
"""

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from search_spaces.domain import Choice, Condition, Float, Int, Range, SearchKey, key_title
from search_spaces.presets import bert_and_beyond
from search_spaces.space import SearchSpace
from sweeps.search.study import JOURNAL_NAME, ask_new, open_study

FILE = Path(__file__).with_name("recorded_draws.json")
SEARCHES = ("tpe", "random")
NUM_DRAWS = 20
MOST_OPEN = 3
"""Configurations that are trained at a time."""

BATCHES = ("tasks.sst.batch_size", "tasks.qqp.batch_size")
PLAIN: Mapping[SearchKey, Range] = {
    "optimizer.learning_rate": Float(low=1e-5, high=1e-3, log=True),
    "optimizer.layer_decay": Float(low=0.75, high=1.0),
    "encoder.max_length": Int(low=16, high=128, log=True),
    "smart.num_steps": Int(low=1, high=3),
    BATCHES: Choice(values=((8, 4), (16, 8), (4, 8))),
}
RANGES: Mapping[SearchKey, Range] = {
    "smart.mode": Choice(values=("unit_norm", "paper", "random")),
    "smart.num_steps": Int(low=1, high=3),
    "smart.epsilon": Float(low=1e-5, high=1e-2, log=True),
    "smart.weight": Float(low=0.0, high=3.0),
}
CONDITIONS: Mapping[SearchKey, Condition] = {
    "smart.num_steps": Condition(key="smart.mode", values=("unit_norm", "paper")),
    "smart.epsilon": Condition(key="smart.mode", values=("paper",)),
}
SPACES = {
    "plain": SearchSpace(name="plain", question="?", base=bert_and_beyond(), ranges=PLAIN),
    "conditional": SearchSpace(
        name="conditional", question="?", base=bert_and_beyond(), ranges=RANGES, conditions=CONDITIONS
    ),
}


def draws(search: str, space: SearchSpace) -> list[dict[str, Any]]:
    """The configurations that a search draws, by title of the key, where three are trained at a time and end in
    another order than they began."""
    found: list[dict[str, Any]] = []
    open_trials: list[Any] = []
    argsort = np.argsort

    def stable(values: Any, axis: Any = -1, kind: Any = None, **more: Any) -> Any:
        return argsort(values, axis, kind or "stable", **more)

    with (
        tempfile.TemporaryDirectory() as folder,
        patch.object(np, "argsort", stable),
    ):
        study = open_study(Path(folder) / JOURNAL_NAME, "recorded", "overall")
        for number in range(NUM_DRAWS):
            trial, params = ask_new(study, space, search, 5, number)
            found.append({key_title(key): value for key, value in params.items()})
            open_trials.append((trial, score(params)))
            if len(open_trials) == MOST_OPEN:
                study.tell(*open_trials.pop(number % MOST_OPEN))
    return json.loads(json.dumps(found))  # type: ignore[no-any-return]


def score(params: Mapping[Any, Any]) -> float:
    """A score that depends on every value."""
    numbers = [value for value in params.values() if isinstance(value, int | float)]
    return -sum(abs(value - 0.8) for value in numbers) + 0.1 * (params.get("smart.mode") == "paper")


def main() -> None:
    """Records the draws."""
    recorded = {search: {name: draws(search, space) for name, space in SPACES.items()} for search in SEARCHES}
    FILE.write_text(json.dumps(recorded, indent=1) + "\n")


if __name__ == "__main__":
    main()
