"""Rows of one repeated word have the lengths and labels that are asked for, in every kind of task."""

from dataclasses import replace

import numpy as np
import pytest

from mtlib.config.trial import TrialConfig
from mtlib.model.encoder import PretrainedEncoder
from mtlib.model.repeated_words import table_of_texts, text_batch
from mtlib.tasks import TASKS


@pytest.mark.parametrize("name", TASKS)
def test_rows_have_the_lengths_that_are_asked_for(
    name: str, tiny_config: TrialConfig, tiny_encoder: PretrainedEncoder
) -> None:
    task = TASKS[name]
    table = table_of_texts(task, tiny_encoder, (40, 3, 7))
    assert table.labels.tolist() == [0, 1, 0]
    batch = text_batch(table, tiny_config, [0, 1], 20)
    lengths = batch.inputs[0].attention_mask.sum(dim=1).tolist()
    assert lengths == [20, 3 * len(task.text_columns) + (3 if task.is_pair else 2)]


def test_several_labels_have_a_column_each(tiny_encoder: PretrainedEncoder) -> None:
    task = replace(TASKS["sst"], kind="multilabel", metric="micro_f1", labels=("a", "b", "c", "d", "e"))
    labels = table_of_texts(task, tiny_encoder, (4, 5)).labels
    np.testing.assert_array_equal(labels, [[0] * 5, [1] * 5])
