"""A tiny BERT for the demonstration corpus: three layers, 64 wide, its weights written down from a seed, not trained.

A random encoder would need far more text than a demonstration has time for, so what pretraining leaves in one is laid
out by hand, and random weights fill the rest. Words that mean the same start near each other and so, less, do words of
a kind and words that praise. The first layer looks at the neighbours of each word and at a conjunction before it; the
second looks for the same word in the other text and compares what surrounds the two; in the third [CLS] gathers. What
any of this says about a label, which words strengthen or negate, that `by` tells who acts: all that is to be learned.
"""

from collections.abc import Mapping

import numpy as np
from numpy.random import Generator

from mtlib.demo import vocabulary as words

Array = np.ndarray
Weights = dict[str, Array]
"""Arrays by name; a weight is (outputs, inputs), as in torch."""

NUM_LAYERS, NUM_HEADS, WIDTH, INNER = 3, 4, 64, 64
"""INNER is the width within a layer's feed-forward part."""
HEAD = WIDTH // NUM_HEADS
MAX_POSITIONS = 128
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")

WORD, CONTEXT, MATCH, PLACE = slice(0, 28), slice(28, 43), slice(43, 51), slice(51, 59)
SEGMENT, SPECIAL = 59, 60
"""What a token's 64 numbers hold: the word, its surroundings, how its match in the other text compares, its position,
which text it is in, whether it is [CLS] or [SEP]. The last three are free."""
HALF = 14
"""Half a word's numbers: what one of the second layer's heads compares."""
FREQUENCIES = np.array([0.2, 0.7, 1.5, 2.6])
"""Radians per token: positions are cosines and sines, so that a head can ask for a distance."""
NEIGHBOURS = (-1, -2, 1)
"""Distances at which the first layer looks, one head each."""
CONJUNCTION_MARK = np.resize([1.0, -1.0], WORD.stop)
"""What `but` and `although` have in common, for the first layer to find them."""

BERT_NAMES = {
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "attended": "attention.output.dense",
    "attended_norm": "attention.output.LayerNorm",
    "inner": "intermediate.dense",
    "outer": "output.dense",
    "outer_norm": "output.LayerNorm",
}
"""BERT's names of a layer's parts, by ours."""


def make_weights(vocabulary: list[str], seed: int) -> Weights:
    """All weights by BERT's names, fp32.

    They are rounded, so that a last digit that differs between machines makes no other encoder.
    """
    stream = np.random.default_rng(seed)
    weights = embed(vocabulary, stream)
    for number, layer in enumerate((look_at_neighbours(stream), compare_matches(stream), gather(stream))):
        for name, value in layer.items():
            part, kind = name.split(".")
            weights[f"encoder.layer.{number}.{BERT_NAMES[part]}.{kind}"] = value
    weights |= {"pooler.dense.weight": np.eye(WIDTH), "pooler.dense.bias": np.zeros(WIDTH)}
    return {name: np.round(value, 5).astype(np.float32) for name, value in weights.items()}


def embed(vocabulary: list[str], stream: Generator) -> Weights:
    """Word, position and segment embeddings, each in its own part of the 64 numbers."""
    word, place, segment = (np.zeros((count, WIDTH)) for count in (len(vocabulary), MAX_POSITIONS, 2))
    word[:, WORD] = word_vectors(vocabulary, stream)
    word[vocabulary.index("[PAD]")] = 0
    for name in ("[CLS]", "[SEP]"):
        word[vocabulary.index(name), WORD] *= 0.3
        word[vocabulary.index(name), SPECIAL] = 4
    angles = np.arange(MAX_POSITIONS)[:, None] * FREQUENCIES
    place[:, PLACE] = 1.4 * np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
    segment[:, SEGMENT] = [1.5, -1.5]
    tables = {"word": word, "position": place, "token_type": segment}
    named = {f"embeddings.{name}_embeddings.weight": table for name, table in tables.items()}
    return named | {"embeddings.LayerNorm.weight": np.ones(WIDTH), "embeddings.LayerNorm.bias": np.zeros(WIDTH)}


def word_vectors(vocabulary: list[str], stream: Generator) -> Array:
    """Vectors of all word pieces, (pieces, 28): near for one concept, less near for concepts that are alike."""
    vectors = dict(zip(vocabulary, normal(stream, len(vocabulary), WORD.stop), strict=True))
    for table in words.ALL_CONCEPTS:
        kind, pairs = normal(stream, WORD.stop), normal(stream, len(table), WORD.stop)
        for number, concept in enumerate(table):
            meaning = blend({0.1: kind, 0.3: pairs[number // 2], 0.6: normal(stream, WORD.stop)})
            for form in (form for name in concept for form in name):
                vectors[form.lower()] = blend({0.85: meaning, 0.15: normal(stream, WORD.stop)})
    praise = normal(stream, WORD.stop)
    for strength, adjectives in words.STRENGTH.items():
        for word in adjectives:
            vectors[word] = blend({0.4: vectors[word], 0.6: praise * strength / 1.6})
    for word in ("but", "although"):
        vectors[word] = blend({0.36: vectors[word], 0.64: CONJUNCTION_MARK})
    return equal_halves(np.stack([vectors[piece] for piece in vocabulary]))


def normal(stream: Generator, *shape: int, scale: float = 1.0) -> Array:
    return scale * stream.standard_normal(shape)


def blend(parts: Mapping[float, Array]) -> Array:
    """A sum of vectors whose shares of the squared length are the keys."""
    blended: Array = np.sum([np.sqrt(share) * vector for share, vector in parts.items()], axis=0)
    return blended


def equal_halves(vectors: Array) -> Array:
    """Vectors whose two halves have length sqrt(14) each, so that no word matches itself better than another does."""
    halves = vectors.reshape(len(vectors), 2, -1)
    scaled: Array = halves / np.sqrt((halves**2).mean(axis=2, keepdims=True))
    return scaled.reshape(len(vectors), -1)


def look_at_neighbours(stream: Generator) -> Weights:
    """The first layer: what stands one and two words before and one after, and which conjunction came before."""
    layer = plain_layer(stream)
    for head, distance in enumerate(NEIGHBOURS):
        ask_for_distance(layer, head, distance)
    ask_for_conjunction(layer, len(NEIGHBOURS))
    for head in range(NUM_HEADS):
        layer["value.weight"][rows_of(head), WORD] = normal(stream, HEAD, WORD.stop, scale=WORD.stop**-0.5)
        layer["attended.weight"][CONTEXT, rows_of(head)] = normal(stream, 15, HEAD, scale=0.6 * HEAD**-0.5)
    layer["inner.weight"] = normal(stream, INNER, WIDTH, scale=WIDTH**-0.5)
    # Positions are not needed any more: random features of a word and its surroundings take their place.
    layer["outer.weight"][PLACE] = normal(stream, 8, INNER, scale=0.5 * (INNER / 2) ** -0.5)
    return layer


def ask_for_distance(layer: Weights, head: int, distance: int, sharpness: float = 5.0) -> None:
    """Lets a head attend from position i to i + distance: its query is the place turned by so many steps."""
    start, count = rows_of(head).start, len(FREQUENCIES)
    for index, angle in enumerate(FREQUENCIES * distance):
        cosine, sine = start + index, start + count + index
        place = [PLACE.start + index, PLACE.start + count + index]
        layer["query.weight"][cosine, place] = sharpness * np.array([np.cos(angle), -np.sin(angle)])
        layer["query.weight"][sine, place] = sharpness * np.array([np.sin(angle), np.cos(angle)])
        layer["key.weight"][[cosine, sine], place] = 1


def ask_for_conjunction(layer: Weights, head: int) -> None:
    """Lets a head attend to what comes before, sin(w (i - j)) at the lowest frequency w, and to a conjunction most."""
    start, cosine, sine = rows_of(head).start, PLACE.start, PLACE.start + len(FREQUENCIES)
    layer["query.weight"][start, sine], layer["key.weight"][start, cosine] = 6, 1
    layer["query.weight"][start + 1, cosine], layer["key.weight"][start + 1, sine] = -6, 1
    layer["query.bias"][start + 2] = 8 * HEAD**0.5
    layer["key.weight"][start + 2, WORD] = CONJUNCTION_MARK / (0.8 * WORD.stop)


def compare_matches(stream: Generator) -> Weights:
    """The second layer: each word's match in the other text, if there is one, and how their surroundings differ."""
    layer = plain_layer(stream)
    for head in (0, 1):
        ask_for_match(layer, head)
        subtract_context_of_match(layer, head)
    for head in (2, 3):
        mix_at_random(layer, head, stream)
        layer["attended.weight"][:, rows_of(head)] = normal(stream, WIDTH, HEAD, scale=0.3 * HEAD**-0.5)
    take_absolute_difference(layer, stream)
    return layer


def ask_for_match(layer: Weights, head: int) -> None:
    """Lets a head attend to the word in the other text that agrees in one half of the vector, or else to [SEP]."""
    start, root = rows_of(head).start, HEAD**0.5
    rows = np.arange(start, start + HALF)
    layer["query.weight"][rows, rows - start + head * HALF] = 9 * root / HALF
    layer["key.weight"][rows, rows - start + head * HALF] = 1
    layer["query.weight"][start + HALF, SEGMENT], layer["key.weight"][start + HALF, SEGMENT] = -2 * root, 0.5
    layer["query.bias"][start + HALF + 1], layer["key.weight"][start + HALF + 1, SPECIAL] = 5 * root, 0.25


def subtract_context_of_match(layer: Weights, head: int) -> None:
    """Takes half of the match's surroundings from a word's own, and notes where there was no match."""
    start, last = rows_of(head).start, rows_of(head).stop - 1
    layer["value.weight"][rows_of(head)] = 0
    layer["value.weight"][start:last, CONTEXT] = np.eye(15)
    layer["value.weight"][last, SPECIAL] = 0.25
    layer["attended.weight"][CONTEXT, start:last] = -np.eye(15) / 2
    layer["attended.weight"][MATCH.start + head, last] = -4


def take_absolute_difference(layer: Weights, stream: Generator) -> None:
    """|difference of the surroundings| along random directions, kept only where there is a match."""
    direction = normal(stream, INNER // 2, 15, scale=15**-0.5)
    layer["inner.weight"][:, CONTEXT] = np.concatenate([direction, -direction])
    layer["inner.weight"][:, [MATCH.start, MATCH.start + 1]] = 0.5
    spread = np.abs(normal(stream, 6, INNER // 2, scale=(INNER // 2) ** -0.5))
    layer["outer.weight"][MATCH.start + 2 : MATCH.stop] = np.concatenate([spread, spread], axis=1)


def gather(stream: Generator) -> Weights:
    """The third layer: a mean over all words of how they compare, and random mixtures of everything."""
    layer = plain_layer(stream)
    for head in range(NUM_HEADS):
        mix_at_random(layer, head, stream)
    for part in ("query.weight", "key.weight", "value.weight"):
        layer[part][rows_of(0)] = 0
    layer["value.weight"][:8, MATCH] = np.eye(8)
    layer["query.bias"][0], layer["key.weight"][0, SPECIAL] = -3 * HEAD**0.5, 0.25  # not from [CLS] and [SEP]
    layer["attended.weight"] = normal(stream, WIDTH, WIDTH, scale=WIDTH**-0.5)
    layer["attended.weight"][:, :8] *= 3
    layer["inner.weight"] = normal(stream, INNER, WIDTH, scale=WIDTH**-0.5)
    layer["outer.weight"] = normal(stream, WIDTH, INNER, scale=0.5 * INNER**-0.5)
    # Wide outputs let new heads, which start near 0, learn as fast as a short run needs.
    layer["outer_norm.weight"] *= 2
    return layer


def mix_at_random(layer: Weights, head: int, stream: Generator) -> None:
    """Lets a head attend to and read what chance decides."""
    for part, scale in (("query", 0.4), ("key", 1.0), ("value", 1.0)):
        layer[f"{part}.weight"][rows_of(head)] = normal(stream, HEAD, WIDTH, scale=scale * WIDTH**-0.5)


def rows_of(head: int) -> slice:
    """An attention head's part of the 64 queries, keys and values."""
    return slice(head * HEAD, (head + 1) * HEAD)


def plain_layer(stream: Generator) -> Weights:
    """A layer as BERT starts it: weights N(0, .02), biases 0, norms 1."""
    layer: Weights = {}
    for name in BERT_NAMES:
        shape = (WIDTH,) if name.endswith("norm") else {"inner": (INNER, WIDTH)}.get(name, (WIDTH, WIDTH))
        layer[f"{name}.weight"] = np.ones(shape) if name.endswith("norm") else normal(stream, *shape, scale=0.02)
        layer[f"{name}.bias"] = np.zeros(shape[0])
    return layer
