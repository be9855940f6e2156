"""Embeddings are what the heads receive: logits follow from them, and batch mates do not matter."""

from pathlib import Path

import numpy as np
import pytest
import torch

from mtlib.tasks import TASKS
from results.inference.embeddings import embed_texts
from results.inference.models import LoadedModel, ModelSource, load_models
from results.inference.predictor import model_logits, tokenize_rows
from results.records.selection import Member
from tests.results.inference.trained_sweep import FIRST, SECOND

TEXTS = {1: [("a fine film",), ("bad",), ("the longest of all these sentences",)]}
TEXTS[2] = [(first, second) for (first,), (second,) in zip(TEXTS[1], reversed(TEXTS[1]), strict=True)]  # type: ignore[misc]


def loaded_model(folder: Path, trial: str, task: str) -> LoadedModel:
    place = str(folder)
    member = Member(sweep=place, trial=trial, epoch=2, weight=1.0)
    (loaded,) = load_models([member], task, ModelSource(places={place: folder}, device="cpu"))
    return loaded


@pytest.mark.parametrize("trial", [FIRST, SECOND])
@pytest.mark.parametrize("task", TASKS)
def test_logits_follow_from_embeddings(trained_folder: Path, trial: str, task: str) -> None:
    loaded, texts = loaded_model(trained_folder, trial, task), TEXTS[len(TASKS[task].text_columns)]
    found = embed_texts(loaded, TASKS[task], texts)
    num_inputs = 2 if loaded.config.tasks[task].encoding == "bi" else 1
    size = int(loaded.pretrained.config.hidden_size)
    assert found.shape == (3, num_inputs * size)
    vectors = torch.from_numpy(found).float().reshape(3, num_inputs, size)
    with torch.no_grad():
        logits = loaded.model.from_unit(task, loaded.model.logits_of(task, vectors)).numpy()
    corpus = tokenize_rows(TASKS[task], texts, loaded.pretrained)
    np.testing.assert_allclose(logits, model_logits(loaded, task, corpus), atol=1e-5)


def test_batch_mates_do_not_matter(trained_folder: Path) -> None:
    loaded = loaded_model(trained_folder, FIRST, "sst")
    together = embed_texts(loaded, TASKS["sst"], TEXTS[1])
    alone = np.concatenate([embed_texts(loaded, TASKS["sst"], [texts]) for texts in TEXTS[1]])
    np.testing.assert_allclose(together, alone, atol=1e-5)
