"""The best layers of Triple Threat's table 11, recomputed from table 5."""

from search_spaces.questions.layer_scales import SPACE
from search_spaces.questions.layers_alone import TABLE_5


def test_each_tasks_layers_are_the_four_best_of_table_5_without_a_tie() -> None:
    for task in ("sst", "qqp", "sts"):
        rows = [row for row in TABLE_5.rows if row.params["task"] == task]
        scores = {int(row.params["layer"]): row.scores[task] for row in rows}
        *best, fifth = sorted(scores, key=scores.__getitem__, reverse=True)[:5]
        assert scores[best[-1]] > scores[fifth]
        assert SPACE.base.tasks[task].chosen_layers == tuple(sorted(best))
