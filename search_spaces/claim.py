"""A claim that some settings beat others, as typed after `--claim`, and the search space that checks it."""

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mtlib.config.trial import TrialConfig
from mtlib.runtime.command_line import key_and_value
from mtlib.runtime.errors import require, require_name
from search_spaces.domain import SearchKey, expand_tasks
from search_spaces.space import SearchSpace, grid_configs, value_in
from search_spaces.vary import typed_value, value_in_base

CLAIM_NAME = "claim"
"""Name of such a space, with which the name of its sweep begins."""
BEATS, BY, IN = "beats", "by", "in"
"""The words between the parts of a claim."""
BASE_SIDE = "base"
"""Stands for the base configuration, in place of settings."""
SIDE = "side"
"""What the space searches where the sides name several keys: a side, by its settings as they are typed."""
EXAMPLE = "smart.weight=1 beats smart.weight=0 by 0.005"
WORSE, BETTER = 0, 1
"""Numbers of the configuration that is claimed to be beaten, and of the one that is claimed to beat it."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """That a configuration with some settings scores higher than one with others, by more than a margin."""

    better: Mapping[str, str]
    """Values as typed, by dotted key; empty for the base configuration, which has what is not named."""
    worse: Mapping[str, str]
    margin: float = 0.0
    """In score, at least 0."""
    task: str | None = None
    """Whose score it is; None for the score that the search space maximises."""

    @property
    def keys(self) -> list[str]:
        """The keys that either side names."""
        return list({**self.worse, **self.better})

    @property
    def text(self) -> str:
        """The claim as it is typed."""
        margin = f" {BY} {typed_value(self.margin)}" if self.margin else ""
        task = "" if self.task is None else f" {IN} {self.task}"
        return f"{side_text(self.better)} {BEATS} {side_text(self.worse)}{margin}{task}"

    @property
    def question(self) -> str:
        """The claim as a question."""
        return f"Is it true that {self.text}?"

    def values_of(self, key: str) -> list[str]:
        """The values that either side names of a key."""
        return [side[key] for side in (self.worse, self.better) if key in side]


def side_text(settings: Mapping[str, str]) -> str:
    """Returns the settings of one side as they are typed."""
    return " ".join(shlex.quote(f"{key}={value}") for key, value in settings.items()) or BASE_SIDE


def read_claim(text: str) -> Claim:
    """Reads a claim: `KEY=VALUE ... beats KEY=VALUE ... [by MARGIN] [in TASK]`, or `base` in place of settings.

    Raises:
        ValueError: it has another form, both sides are the same, or the margin is no number of at least 0.
    """
    rule = f"--claim must be e.g. '{EXAMPLE}' (KEY=VALUE ... {BEATS} KEY=VALUE ... [{BY} X] [{IN} TASK])"
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ValueError(f"{rule}; {error}, got {text!r}") from None
    require(words.count(BEATS) == 1, rule, repr(text))
    at = words.index(BEATS)
    first, rest = words[:at], words[at + 1 :]
    task, margin = None, 0.0
    if len(rest) > 2 and rest[-2] == IN:
        *rest, _, task = rest
    if len(rest) > 2 and rest[-2] == BY:
        *rest, _, size = rest
        margin = read_margin(size)
    require(bool(first and rest) and not {BY, IN} & {*first, *rest}, rule, repr(text))
    claim = Claim(better=read_side(first), worse=read_side(rest), margin=margin, task=task)
    require(claim.better != claim.worse, "--claim must name two configurations that differ", repr(text))
    return claim


def read_margin(text: str) -> float:
    """Reads a difference in score; ValueError for any other text."""
    try:
        margin = float(text)
    except ValueError:
        margin = math.nan
    require(0 <= margin < math.inf, "--claim must beat by a difference in score, a number of at least 0", text)
    return margin


def read_side(words: Sequence[str]) -> dict[str, str]:
    """Reads the settings of one side; ValueError if one is no key and value, or a key is there twice."""
    if list(words) == [BASE_SIDE]:
        return {}
    found = dict(key_and_value("--claim", word, "smart.weight=1") for word in words)
    require(len(found) == len(words), "--claim must name each key once on a side", " ".join(words))
    return found


def claim_space(base: TrialConfig, metric: str, claim: Claim) -> SearchSpace:
    """Returns the space of the two configurations of a claim, whose base is the one that is claimed to be beaten.

    Args:
        base: what either side does not name.
        metric: the score that decides, unless the claim names a task.
        claim: about keys of the base.

    Raises:
        ValueError: one line: an unknown key or task, a value that does not fit, or two equal configurations.
    """
    score = claim.task or metric
    try:
        require_name(score, ("overall", *base.active_tasks), "score")
        rule = "it must beat by less than 1, the whole range of scores"
        require(claim.margin < 1 or has_errors(base, score), rule, claim.margin)
        worse, better = (base.override(expand_tasks(side, base.active_tasks)) for side in (claim.worse, claim.better))
        require(worse != better, "both sides must differ", f"the same configuration by '{claim.text}'")
        trained = [config.active_tasks for config in (worse, better)]
        rule = "it must be about a task that both sides train"
        require(score == "overall" or all(score in tasks for tasks in trained), rule, score)
        keys = claimed_keys(claim, base, (worse, better))
        sides = [{key: value_in_base(side, key, {}) for key in keys} for side in (worse, better)]
        grid: dict[SearchKey, Any] = {keys[0]: tuple(side[keys[0]] for side in sides)}
        if len(keys) > 1:
            grid = {SIDE: dict(zip((side_text(claim.worse), side_text(claim.better)), sides, strict=True))}
        space = SearchSpace(name=CLAIM_NAME, question=claim.question, base=worse, metric=score, grid=grid)
    except ValueError as error:
        raise ValueError(f"--claim: {error}") from error
    assert grid_configs(space) == [worse, better]
    return space


def has_errors(base: TrialConfig, score: str) -> bool:
    """Returns whether a score is, or counts, an error, which may be larger than 1."""
    counted = base.active_tasks if score == "overall" else [score]
    return any(base.data.tasks[task].metric_entry.lower_is_better for task in counted)


def claimed_keys(claim: Claim, base: TrialConfig, sides: Sequence[TrialConfig]) -> list[str]:
    """Returns the keys that a claim names; in place of a key of all tasks, whose values differ between them on a side,
    or which a side does not train, that of each task of the base."""
    found: list[str] = []
    are_trained = all(side.active_tasks == base.active_tasks for side in sides)
    for key in claim.keys:
        own = list(expand_tasks({key: None}, base.active_tasks))
        is_one = all(len({repr(value_in(side, single)) for single in own}) == 1 for side in sides)
        found += [key] if own == [key] or (is_one and are_trained) else own
    return list(dict.fromkeys(found))
