#!/usr/bin/env bash
# transformers: a cosine schedule that is stepped past its end raises the learning rate again, up to the peak.
#
# Versions: transformers 5.23.0, torch 2.13.0 (CPU), Python 3.11.
# Expectation: `get_cosine_schedule_with_warmup(optimizer, 0, 100)` falls from the peak to 0 within 100 steps and then
#   stays at 0, as `get_linear_schedule_with_warmup` of the same module does; its formula has a `max(0.0, ...)` for that.
# Behaviour: the cosine goes on. After 150 steps the rate is half the peak, after 200 it is the peak, and so on for ever;
#   the `max` never acts, as the formula is never below 0. Who trains a little longer than planned, as by
#   one more epoch, or counts micro-batches as steps, gets the highest rates last, and nothing says so.
# Seen: "linear 0 0 0", "cosine 0 0.5 1" (after 100, 150 and 200 of 100 steps).
# Who meets it: loops of one's own that go on past the steps that were given to the schedule.
# Exit code: 0 while this is so, 1 once the rate stays at 0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv environment
environment/bin/pip install --quiet torch==2.13.0 transformers==5.23.0
cat > rates.py <<'PYTHON'
import sys
import warnings

warnings.simplefilter("ignore")
import torch
from transformers import get_cosine_schedule_with_warmup, get_linear_schedule_with_warmup


def rates(make):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=1.0)
    schedule, found = make(optimizer, 0, 100), []
    for _ in range(201):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return [found[step] for step in (100, 150, 200)]


linear, cosine = rates(get_linear_schedule_with_warmup), rates(get_cosine_schedule_with_warmup)
print("linear", *(f"{rate:.2g}" for rate in linear))
print("cosine", *(f"{rate:.2g}" for rate in cosine))
sys.exit(0 if max(linear) == 0 and cosine[1] > 0.49 and cosine[2] > 0.99 else 1)
PYTHON
environment/bin/python rates.py
