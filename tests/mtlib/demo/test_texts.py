"""The grammar of the demonstration corpus: labels depend on the meaning of a text, not on its words alone."""

import re
from collections import Counter
from collections.abc import Callable
from random import Random

import numpy as np
import pytest

from mtlib.demo import texts as demo_text
from mtlib.demo import vocabulary as demo_words
from mtlib.demo.texts import (
    QUESTIONS,
    draw_meaning,
    known_words,
    realize_meaning,
    write_headlines,
    write_questions,
    write_review,
)

Writer = Callable[[Random], tuple[tuple[str, ...], float]]
STRENGTH_OF = {word: value for value, group in demo_words.STRENGTH.items() for word in group}


@pytest.fixture
def without_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_text, "LABEL_NOISE", {"sst": 0.0, "qqp": 0.0})
    monkeypatch.setattr(demo_text, "SCORE_NOISE", 0.0)


def draw(writer: Writer, count: int) -> list[tuple[tuple[str, ...], float]]:
    random = Random(3)
    return [writer(random) for _ in range(count)]


def words_of(text: str) -> list[str]:
    return re.findall(r"[a-z]+|[^a-z\s]", text.lower())


def sentiment(clause: str) -> int:
    """-2 to 2, by the rules of English that the vocabulary states."""
    predicate = re.fullmatch(r"the \w+ (?:is|seems) (.+)", clause)
    assert predicate, clause
    *before, adjective = predicate[1].split()
    strength = STRENGTH_OF[adjective]
    sign = int(np.sign(strength))
    if before and before[0] == "neither":
        return 0
    if before and before[0] in demo_words.NEGATORS:
        return -sign
    if " ".join(before) == demo_words.REVERSER:
        return -2 * sign
    if before and before[0] in demo_words.WEAKENERS:
        return strength - sign
    return 2 * sign if before else strength


@pytest.mark.usefixtures("without_noise")
def test_the_label_of_a_review_is_the_sentiment_of_its_main_clause() -> None:
    reviews = draw(write_review, 3000)
    assert len({text for (text,), _ in reviews}) > 2500
    forms = Counter[str]()
    for (text,), label in reviews:
        body = text.removesuffix(" .")
        if ", but " in body or ", although " in body:
            conceded, main = body.split(" , but ") if ", but " in body else reversed(body.split(" , although "))
            assert sentiment(conceded) * sentiment(main) < 0 or (sentiment(main) == 0 != sentiment(conceded)), text
            clauses, form = [main], "contrast"
        else:
            clauses = body.split(" and ")
            form = "single" if len(clauses) == 1 else "and"
        assert [sentiment(clause) + 2 for clause in clauses] == [label] * len(clauses), text
        forms[form] += 1
    assert min(forms[form] for form in ("single", "and", "contrast")) > 300


@pytest.mark.parametrize(("writer", "classes"), [(write_review, range(5)), (write_questions, range(2))])
def test_classes_are_equally_frequent(writer: Writer, classes: range) -> None:
    counts = Counter(label for _, label in draw(writer, 3000))
    assert sorted(counts) == [float(label) for label in classes]
    assert min(counts.values()) > 0.85 * 3000 / len(classes)


def test_similarities_cover_the_range_in_steps_of_a_fifth() -> None:
    labels = np.array([label for _, label in draw(write_headlines, 2000)])
    assert (labels.min(), labels.max()) == (0, 5)
    assert np.allclose(labels * 5, np.round(labels * 5))
    assert np.histogram(labels, bins=5, range=(0, 5))[0].min() > 200


def test_all_words_of_the_texts_are_known() -> None:
    rows = [row for writer in (write_review, write_questions, write_headlines) for row in draw(writer, 500)]
    assert {word for texts, _ in rows for text in texts for word in words_of(text)} <= set(known_words())


@pytest.mark.parametrize("frame", QUESTIONS, ids=lambda frame: frame.wordings[0])
def test_swapping_the_names_changes_every_wording(frame: demo_text.Frame) -> None:
    meaning = draw_meaning(Random(1), frame)
    exchanged = {**meaning, "a": meaning["b"], "b": meaning["a"]}
    realized = {realize_meaning(Random(number), frame, meaning) for number in range(200)}
    assert realized.isdisjoint(realize_meaning(Random(number), frame, exchanged) for number in range(200))
    assert len(realized) >= len(frame.wordings)


@pytest.mark.usefixtures("without_noise")
def test_similarity_grows_with_overlap() -> None:
    rows = draw(write_headlines, 2000)
    overlaps = np.array([len(set(words_of(a)) & set(words_of(b)) - {"in", "by"}) for (a, b), _ in rows])
    labels = np.array([label for _, label in rows])
    means = [labels[overlaps == shared].mean() for shared in (0, 2, 4)]
    assert means == sorted(means)
