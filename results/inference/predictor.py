"""Predicts rows of text with an ensemble, chunk by chunk, in memory that does not grow with the number of rows."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from mtlib.data.token_cache import TokenTable, tokenize_texts
from mtlib.data.tokenizer_facts import find_special_tokens, tokenizer_fingerprint
from mtlib.runtime.errors import require
from mtlib.tasks import Task
from results.ensembles.ensemble import Ensemble, combine_outputs
from results.ensembles.outputs import outputs_of
from results.inference.models import LoadedModel, ModelSource, load_models
from results.inference.readers import TextRow
from results.records.selection import BundledMember, Member, Selection
from results.stats.resampling import Floats

if TYPE_CHECKING:  # `results` must load without torch
    from mtlib.model.encoder import PretrainedEncoder

MAX_CHUNK_ROWS = 2048
MAX_CHUNK_CHARACTERS = 2**22
"""A chunk ends before more rows than `MAX_CHUNK_ROWS`, and behind the row that makes it longer than this."""
MAX_WEIGHT_SUM_ERROR = 1e-6
"""How far the sum of weights may be from 1."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Predictor:
    """An ensemble, loaded, that predicts one task."""

    task: Task
    models: tuple[LoadedModel, ...]
    ensemble: Ensemble
    """How their outputs are averaged; its members are numbers of `models`."""

    @cached_property
    def tokenizers(self) -> tuple[tuple[str, str], ...]:
        """The fingerprint of each model's tokenizer, and its prefix: texts are tokenized once for all with the same."""
        found = {id(loaded.pretrained): loaded.pretrained.tokenizer for loaded in self.models}
        fingerprints = {key: tokenizer_fingerprint(tokenizer) for key, tokenizer in found.items()}
        name = self.task.name
        return tuple((fingerprints[id(own.pretrained)], own.config.tasks[name].prefix) for own in self.models)


def load_predictor(selection: Selection, task: str, source: ModelSource) -> Predictor:
    """Loads the ensemble that was selected for a task, one of the selection's.

    Raises:
        ValueError: as `load_models`, or weights of members make no sense.
    """
    return load_members(selection.definitions[task], selection.tasks[task].members, source)


def load_members(task: Task, members: Sequence[Member], source: ModelSource) -> Predictor:
    """Loads the ensemble of some members; raises as `load_predictor`."""
    ensemble = ensemble_of(members)
    return Predictor(task=task, models=load_models(members, task.name, source), ensemble=ensemble)


def ensemble_of(members: Sequence[Member | BundledMember]) -> Ensemble:
    """Returns how the outputs of members are averaged; ValueError if a weight is invalid."""
    weights = tuple(member.weight for member in members)
    require(min(weights) > 0, "weights of members must be above 0", min(weights))
    require(abs(sum(weights) - 1) <= MAX_WEIGHT_SUM_ERROR, "weights of members must sum to 1", sum(weights))
    return Ensemble(members=tuple(range(len(members))), weights=weights)


def predict_stream(predictor: Predictor, rows: Iterable[TextRow]) -> Iterator[tuple[list[TextRow], Floats]]:
    """Predicts rows as they come; no more than a chunk of them is read ahead.

    Returns:
        Chunks of rows, in order, with the ensemble's outputs, (rows, width), NaN for a row with a blank text; see
        `results.ensembles.outputs`.

    Raises:
        ValueError: a prediction is not finite.
    """
    for chunk, (outputs,) in predict_stream_together([predictor], rows):
        yield chunk, outputs


def predict_stream_together(
    predictors: Sequence[Predictor], rows: Iterable[TextRow]
) -> Iterator[tuple[list[TextRow], list[Floats]]]:
    """Predicts rows for several tasks, as `predict_stream` for one; passes are shared as in `predict_together`."""
    for chunk in iter_chunks(rows):
        has_text = np.array([not row.is_blank for row in chunk])
        texts = [row.texts for row in chunk if not row.is_blank]
        outputs = [np.full((len(chunk), own.task.num_logits), np.nan) for own in predictors]
        if texts:
            for given, found in zip(outputs, predict_together(predictors, texts), strict=True):
                given[has_text] = found
        yield chunk, outputs


def predict_rows(predictor: Predictor, texts: Iterable[tuple[str, ...]]) -> Floats:
    """Returns the outputs of an ensemble for all rows, at least one, (rows, width), as `predict_stream` gives them."""
    rows = (TextRow(where="", id="", texts=own) for own in texts)
    return np.concatenate([outputs for _, outputs in predict_stream(predictor, rows)])


def iter_chunks(rows: Iterable[TextRow]) -> Iterator[list[TextRow]]:
    """Rows in lists that are short enough to be held in memory."""
    chunk, characters = list[TextRow](), 0
    for row in rows:
        chunk.append(row)
        characters += sum(map(len, row.texts))
        if len(chunk) == MAX_CHUNK_ROWS or characters > MAX_CHUNK_CHARACTERS:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


def predict_texts(predictor: Predictor, texts: Sequence[tuple[str, ...]]) -> Floats:
    """Returns the outputs of an ensemble for at least one row, (rows, width); see `results.ensembles.outputs`.

    Args:
        texts: one or two by row, as the task has; they may be blank.

    Raises:
        ValueError: a row is no tuple of as many texts, or a prediction is not finite.
    """
    return predict_together([predictor], texts)[0]


def predict_together(predictors: Sequence[Predictor], texts: Sequence[tuple[str, ...]]) -> list[Floats]:
    """Returns the outputs of each of some tasks' ensembles for at least one row, as `predict_texts`.

    A model that several of the ensembles use passes over the texts once for all tasks that read them alike: with the
    same layers, prefix and encoding.

    Args:
        predictors: of tasks that have these texts as theirs.
        texts: one or two by row, as the tasks have; they may be blank.

    Raises:
        ValueError: a row is no tuple of as many texts, or a prediction is not finite.
    """
    num_texts = len(predictors[0].task.text_columns)
    wrong = next((row for row in texts if isinstance(row, str) or len(row) != num_texts), None)
    require(wrong is None, f"every row of texts must be a tuple of {num_texts}", repr(wrong))
    tables: dict[tuple[str, str], TokenTable] = {}
    passes: dict[Pass, dict[str, None]] = {}  # with the tasks that share it; a model may be twice in an ensemble
    for predictor in predictors:
        name = predictor.task.name
        for tokenizer, loaded in zip(predictor.tokenizers, predictor.models, strict=True):
            if tokenizer not in tables:
                tables[tokenizer] = tokenize_rows(predictor.task, texts, loaded.pretrained, tokenizer[1])
            passes.setdefault(Pass.of(loaded, tokenizer, name), {})[name] = None
    logits: dict[tuple[int, str], Floats] = {}
    for own, sharing in passes.items():
        names = list(sharing)
        found = model_logits(own.loaded, names, replace(tables[own.tokenizer], task=names[0]))
        logits.update({(id(own.loaded), name): part for name, part in zip(names, found, strict=True)})
    return [
        combine_outputs(
            np.stack(
                [outputs_of(own.task, logits[id(loaded), own.task.name]).astype(np.float64) for loaded in own.models]
            ),
            own.ensemble,
        )
        for own in predictors
    ]


@dataclass(frozen=True, kw_only=True)
class Pass:
    """What a pass of an encoder depends on besides the texts."""

    loaded: LoadedModel
    tokenizer: tuple[str, str]
    """Its fingerprint, and the prefix of the texts."""
    encoding: str
    layers: str | None
    """As of `MultiTaskModel.layers_of`."""

    @classmethod
    def of(cls, loaded: LoadedModel, tokenizer: tuple[str, str], task: str) -> "Pass":
        """Returns the pass of a model that a task needs."""
        encoding, layers = loaded.config.tasks[task].encoding, loaded.model.layers_of(task)
        return cls(loaded=loaded, tokenizer=tokenizer, encoding=encoding, layers=layers)


def tokenize_rows(
    task: Task, texts: Sequence[tuple[str, ...]], pretrained: "PretrainedEncoder", prefix: str
) -> TokenTable:
    """Tokenizes texts, with a prefix before each, for an encoder, in memory."""
    columns = [[f"{prefix}{text}" for text in column] for column in zip(*texts, strict=True)]
    pieces = [tokenize_texts(pretrained.tokenizer, column) for column in columns]
    return TokenTable(
        task=task.name,
        num_own_rows=len(texts),
        id_column=pa.array([""] * len(texts)),
        labels=np.full(len(texts), np.nan, dtype=np.float32),
        pieces=tuple(column.values.to_numpy() for column in pieces),
        offsets=tuple(column.offsets.to_numpy() for column in pieces),
        special=find_special_tokens(pretrained.tokenizer),
        fingerprint="",
    )


def model_logits(loaded: LoadedModel, tasks: Sequence[str], table: TokenTable) -> list[Floats]:
    """Returns one model's logits of tasks that share a pass, each (rows, num_logits); batches are of rows of similar
    length, as when it was scored."""
    from mtlib.runtime.errors import TrainingDiverged
    from mtlib.training.evaluation import predict_tasks

    device = next(loaded.model.parameters()).device
    try:
        logits: list[Floats] = predict_tasks(loaded.model, loaded.config, table, tasks, device)
    except TrainingDiverged as error:
        raise ValueError(f"every prediction must be finite, got another one by {loaded.name}") from error
    return logits
