"""What to expect of a soup: its cross-fitted score, less what it owes to epochs that were kept because of all of dev.

Other selection methods are scored on all candidates, soups only on those whose weights were kept, and a sweep keeps the
epochs that are best on all of dev. So the examples of a fold have had a part in what is chosen without them. How much
that is worth shows in the best single model, which is cross-fitted twice: among all candidates, and among those kept.

    soup, corrected = soup + (single among all - single among kept)

Simulated on 1,100 examples of five classes, with means of outputs in the place of models (20 trials of 8 epochs, of
each the best one kept, 60 times), scores of soups were too high by .008, corrected ones too low by .002 (standard error
.002), and 98 % of their 95 % intervals held the truth. On 850 scores by correlation it was .004, and 0 when corrected.
Half of the noise was common to all trials; where none is, about a third of what was too high stays.
"""

from results.scoring.method_scores import Baselines, ComparedMethod, EvaluatedMethod


def correct_soup(soup: EvaluatedMethod, baselines: Baselines, kept_single: EvaluatedMethod) -> ComparedMethod:
    """One kind of soup, cross-fitted among the candidates that can be averaged, compared with the baselines.

    `kept_single` is the best single candidate among those that can be averaged; the baselines are among all.
    """
    among_all, among_kept = baselines.single.estimate, kept_single.estimate
    found = soup.estimate + (among_all - among_kept)
    return ComparedMethod(
        method=soup,
        score=found,
        lead=soup.estimate - among_kept,  # over the best single one among all, as corrected
        base_lead=None if baselines.base is None else found - baselines.base.estimate,
    )
