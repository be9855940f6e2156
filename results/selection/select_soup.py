"""Chooses a task's weight soup: averaged models are scored on dev, and the simplest of the best soups is taken."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from pathlib import Path

import numpy as np

from mtlib.data.token_cache import Corpus
from results.analysis.comparison.bootstrap import Numbers
from results.ensembles.best_k import choose_single
from results.ensembles.candidates import Pool, without_copies
from results.ensembles.ensemble import equal_ensemble, score_rows
from results.ensembles.methods import AUTOMATIC, GREEDY_SOUP, SINGLE, UNIFORM_SOUP
from results.ensembles.outputs import Outputs, outputs_of
from results.ensembles.selection_method import Settings
from results.ensembles.soup import (
    PredictSoup,
    greedy_soup,
    most_soups,
    predict_once,
    soup_outputs,
    uniform_soup,
)
from results.inference.dev_texts import read_dev_texts
from results.inference.models import ModelSource
from results.inference.predictor import model_logits, tokenize_rows
from results.inference.soup_model import find_shapes, load_soup
from results.records.selection import TaskSelection
from results.scoring.base_configuration import NO_BASE, BaseConfiguration
from results.scoring.method_scores import (
    Baselines,
    EvaluatedMethod,
    adjusted_scores,
    compare_with_baselines,
    evaluate_base,
    evaluate_method,
)
from results.scoring.soup_correction import correct_soup
from results.selection.select_ensemble import (
    automatic_method,
    build_task_selection,
    check_rows,
    members_of,
    one_standard_error_rule,
    with_weights,
)


def choose_soups(
    pool: Pool,
    settings: Settings,
    *,
    source: ModelSource,
    data: Path | None = None,
    num_repeats: int = 1,
    base: BaseConfiguration = NO_BASE,
    on_progress: Callable[[str], None] = lambda _line: None,
) -> TaskSelection:
    """Chooses a task's soup from its candidates, by models that are loaded, averaged and scored on dev.

    Args:
        pool: the task's candidates, as `results.ensembles.candidates.read_pool` returns them.
        settings: of both kinds of soup: `max_models`, `num_considered`, `num_folds` and `seed`.
        source: where the candidates' models are loaded from.
        data: the data folder; None for the one that the first candidate's sweep names.
        num_repeats: of cross-fitting, with other folds each time; most of the time is spent on soups for these.
        base: the base configuration, whose scores are listed too.
        on_progress: is given a line for each soup.

    Raises:
        ValueError: in one line: as `select_soup`, `results.inference.dev_texts.read_dev_texts` and
            `results.inference.soup_model.load_soup`; a prediction is not finite.
    """
    task, kept = pool.task, can_be_averaged(pool)
    shapes = find_shapes(members_of(kept, equal_ensemble(np.arange(len(kept.candidates)))), task.name, source)
    texts = read_dev_texts(source.places[kept.candidates[0].sweep], task.name, pool.ids, data)
    ask, most, numbers = (
        model_predictions(kept, texts, source),
        most_soups(kept, shapes, settings, num_repeats),
        count(1),
    )

    def predict(members: tuple[int, ...]) -> Outputs:
        outputs = ask(members)
        value = task.metric_entry.value_of(score_rows(kept, outputs, np.arange(len(texts))))
        what = f"{len(members)} models, {value:.3f} on dev"
        on_progress(f"{task.title}: soup {next(numbers):,} of at most {most:,}: {what}")
        return outputs

    return select_soup(pool, kept, settings, predict, shapes, num_repeats=num_repeats, base=base)


def can_be_averaged(pool: Pool) -> Pool:
    """The candidates that may be in a soup: those whose weights were kept, one of each group of copies."""
    return with_weights(without_copies(pool))


def model_predictions(pool: Pool, texts: Sequence[tuple[str, ...]], source: ModelSource) -> PredictSoup:
    """Predictions of real models for all texts, those of the pool's rows; one soup is loaded at a time."""
    cut: dict[int, Corpus] = {}  # texts in word pieces, once for each encoder

    def predict(members: tuple[int, ...]) -> Outputs:
        chosen = members_of(pool, equal_ensemble(np.array(members)))
        loaded = load_soup(chosen, pool.task.name, source)
        key = id(loaded.pretrained)
        cut[key] = cut[key] if key in cut else tokenize_rows(pool.task, texts, loaded.pretrained)
        return outputs_of(pool.task, model_logits(loaded, pool.task.name, cut[key]))

    return predict


def select_soup(
    pool: Pool,
    kept: Pool,
    settings: Settings,
    predict: PredictSoup,
    shapes: Numbers,
    *,
    num_repeats: int = 1,
    base: BaseConfiguration = NO_BASE,
) -> TaskSelection:
    """Chooses a task's soup, uniform or greedy, whichever is the simplest of the best.

    Args:
        pool: the task's candidates.
        kept: those that can be averaged, from `can_be_averaged`.
        settings: of both kinds of soup.
        predict: outputs of soups of `kept`; no soup is computed twice, and none of one candidate.
        shapes: (candidates,) of `kept`: equal where weights can be averaged.
        num_repeats: of cross-fitting, with other folds each time.
        base: the base configuration, whose scores are listed too.

    Returns:
        A soup, the scores of both ways, of choosing between them, and of the best single model, as of all ways to
        choose; those of soups are corrected as in `results.scoring.soup_correction`.

    Raises:
        ValueError: no candidate has its weights, or there are too few examples.
    """
    rows = check_rows(pool, settings)
    once = predict_once(kept, predict)
    methods, combine = {UNIFORM_SOUP: uniform_soup(shapes), GREEDY_SOUP: greedy_soup(once, shapes)}, soup_outputs(once)
    chosen = {name: method(kept, rows, settings) for name, method in methods.items()}
    attempt = partial(
        evaluate_method, pool=kept, settings=settings, num_repeats=num_repeats, kept=kept, combine=combine
    )
    tried = {name: attempt(name, method, chosen=chosen[name]) for name, method in methods.items()}
    name = one_standard_error_rule({name: one.fitted for name, one in tried.items()})
    automatic = attempt(AUTOMATIC, automatic_method(methods, combine), chosen=chosen[name])
    baselines, kept_single = find_baselines(pool, kept, settings, num_repeats, base)
    beside = [compare_with_baselines(own, baselines) for own in (baselines.base, baselines.single) if own is not None]
    soups = [correct_soup(one, baselines, kept_single) for one in (*tried.values(), automatic)]
    *scores, of_automatic = adjusted_scores([*beside, *soups])
    return build_task_selection(
        pool,
        method=name,
        members=members_of(kept, chosen[name]),
        methods=tuple(scores),
        automatic=of_automatic,
        is_soup=True,
    )


def find_baselines(
    pool: Pool, kept: Pool, settings: Settings, num_repeats: int, base: BaseConfiguration
) -> tuple[Baselines, EvaluatedMethod]:
    """What soups are compared with, and the best single candidate among those kept, by which they are corrected."""
    distinct = without_copies(pool)
    chosen = choose_single(kept, np.arange(len(kept.labels)), settings)
    among_all, among_kept = (
        evaluate_method(SINGLE, choose_single, own, settings, num_repeats, chosen=chosen, kept=kept)
        for own in (distinct, kept)
    )
    of_base = evaluate_base(pool, base, settings, num_repeats)
    return Baselines(single=among_all, base=of_base), among_kept
