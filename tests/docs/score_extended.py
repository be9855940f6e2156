"""Scores predictions by the metric of docs/extending.md, in a copy of the packages that has it."""

import json
from dataclasses import replace

import numpy as np
from sklearn.metrics import cohen_kappa_score

from mtlib.tasks import TASKS
from results.stats.covariance import covariance_over_examples, influence_values
from results.stats.resampling import bootstrap_scores, score_examples


def main() -> None:
    """Prints the metric's value by the table and by scikit-learn, and both standard errors."""
    task = replace(TASKS["sst"], metric="kappa")
    stream = np.random.default_rng(0)
    labels = stream.integers(0, 5, 200).astype(np.float64)
    values = np.where(stream.random(200) < 0.5, labels, stream.integers(0, 5, 200))[None].astype(np.float64)
    score = float(score_examples(task, values, labels)[0])
    influence = influence_values(task, values, labels)
    try:
        replace(task, metric="kapa")
    except ValueError as error:
        message = str(error)
    found = {
        "score": score,
        "kappa": float(cohen_kappa_score(labels, values[0])),
        "resampled": float(bootstrap_scores(task, values, labels, num_resamples=400).std()),
        "standard_error": float(np.sqrt(covariance_over_examples(influence)[0, 0])),
        "overall": task.contribution(score),
        "error": message,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
