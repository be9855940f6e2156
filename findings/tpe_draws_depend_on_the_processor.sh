#!/usr/bin/env bash
# Optuna, NumPy: with one seed, one version of everything and the same scores TPE draws other configurations on another
# processor, where a key is a whole number.
#
# Versions: optuna 5.0.0, numpy 2.4.6, Python 3.11; a processor with AVX2.
# Expectation: a seeded sampler that is told the same scores, one after another, proposes the same points; Optuna made the
#   order of its trials stable for this (pull request 4056).
# Behaviour: the widths of TPE's kernels follow from the neighbours of each observed value, for which the values are
#   sorted by NumPy's default order. It leaves open which of two equal values is first, and NumPy decides otherwise with
#   the vector instructions AVX2 or AVX-512 than without. Whole numbers are equal often. Equal values have kernels of
#   different widths, and when keys are drawn together it matters which observation gets which. So a laptop and a
#   cluster search differently with one command, and so do NumPy 1.26, which sorts without AVX2, and 2.0.
# Seen: "whole numbers: first difference at trial 11 of 40" with `NPY_DISABLE_CPU_FEATURES`, NumPy's own switch, as on an
#   older processor; "other numbers: no difference in 40".
# Who meets it: whoever compares searches between machines, or keeps recorded draws as a test.
# Exit code: 0 while this is so, 1 otherwise; 2 where the processor has no such instructions.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv environment
environment/bin/pip install --quiet optuna==5.0.0 numpy==2.4.6
cat > draws.py <<'PYTHON'
import json
import sys
import warnings

warnings.simplefilter("ignore")
import optuna

optuna.logging.set_verbosity(optuna.logging.ERROR)


def draws(whole):
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=5))
    for _ in range(40):
        trial = study.ask()
        rate = trial.suggest_float("rate", 1e-5, 1e-3, log=True)
        steps = trial.suggest_int("steps", 1, 3) if whole else trial.suggest_float("steps", 0.5, 3.5)
        study.tell(trial, -abs(rate - 1e-4) - 1e-4 * abs(steps - 2))
    return [[trial.params[key] for key in ("rate", "steps")] for trial in study.trials]


print(json.dumps([draws(True), draws(False)]))
PYTHON
cat > compare.py <<'PYTHON'
import json
import sys

import numpy as np


def differ(one, other):  # libraries of mathematics may round otherwise
    return not np.allclose(one, other, rtol=1e-9, atol=0)


if "X86_V3" not in np.show_config(mode="dicts")["SIMD Extensions"]["found"]:
    print("this processor has neither AVX2 nor AVX-512: there is nothing to compare")
    sys.exit(2)
(here, other) = (json.load(open(name)) for name in ("here.json", "without.json"))
first = [
    next((at for at, pair in enumerate(zip(*both)) if differ(*pair)), None) for both in zip(here, other)
]
for kind, at in zip(("whole numbers", "other numbers"), first):
    print(f"{kind}: " + ("no difference in 40" if at is None else f"first difference at trial {at} of 40"))
sys.exit(0 if first[0] is not None and first[1] is None else 1)
PYTHON
environment/bin/python draws.py > here.json
NPY_DISABLE_CPU_FEATURES="X86_V3 X86_V4 AVX512_ICL AVX512_SPR" environment/bin/python draws.py > without.json
environment/bin/python compare.py
