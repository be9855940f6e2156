"""Weights of a tiny BERT for the demonstration corpus: three layers of width 64, constructed from a seed, not trained.

A random encoder would need more text than a demonstration has time for, so this one imitates some results of
pretraining by construction, and is random otherwise. Synonyms have similar embeddings, and to a lesser degree so have
similar concepts and adjectives of similar sentiment. The first layer attends to the neighbours of each word and to a
conjunction before it; the second to the same word in the other text, and compares the contexts of the two; the third
averages over words into [CLS]. How any of this relates to labels, which words intensify or negate, and that `by` marks
the agent, is left to fine-tuning.
"""

from collections.abc import Mapping

import numpy as np
from numpy.random import Generator

from mtlib.demo import vocabulary as words

Array = np.ndarray
WeightArrays = dict[str, Array]
"""Arrays by name; a weight is (outputs, inputs), as in torch."""

NUM_LAYERS, NUM_HEADS, HIDDEN_SIZE, INTERMEDIATE_SIZE = 3, 4, 64, 64
HEAD_SIZE = HIDDEN_SIZE // NUM_HEADS
MAX_POSITIONS = 128
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")

WORD, CONTEXT, MATCH, POSITION = slice(0, 28), slice(28, 43), slice(43, 51), slice(51, 59)
SEGMENT, SPECIAL = 59, 60
"""Dimensions of a token's state: the word, its context, the comparison with its match in the other text, its position,
its segment, whether it is [CLS] or [SEP]. The last three are free."""
HALF_WORD = 14
"""Half of a word's dimensions, which one head of the second layer compares."""
FREQUENCIES = np.array([0.2, 0.7, 1.5, 2.6])
"""Radians per token: positions are cosines and sines, so that a head can attend to a distance."""
NEIGHBOUR_DISTANCES = (-1, -2, 1)
"""Distances that the heads of the first layer attend to, one each."""
CONJUNCTION_MARK = np.resize([1.0, -1.0], WORD.stop)
"""The common component of `but` and `although`, which the first layer attends to."""

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
"""Modules of a BERT layer, by the names used here."""


def make_weights(vocabulary: list[str], seed: int) -> WeightArrays:
    """Returns all weights by BERT's names, fp32; rounded, so that machines whose last digits differ give the same
    encoder."""
    stream = np.random.default_rng(seed)
    weights = embedding_weights(vocabulary, stream)
    for number, layer in enumerate((neighbour_layer(stream), match_layer(stream), gather_layer(stream))):
        for name, value in layer.items():
            part, kind = name.split(".")
            weights[f"encoder.layer.{number}.{BERT_NAMES[part]}.{kind}"] = value
    weights |= {"pooler.dense.weight": np.eye(HIDDEN_SIZE), "pooler.dense.bias": np.zeros(HIDDEN_SIZE)}
    return {name: np.round(value, 5).astype(np.float32) for name, value in weights.items()}


def embedding_weights(vocabulary: list[str], stream: Generator) -> WeightArrays:
    """Word, position and segment embeddings, each in its own dimensions."""
    word, position, segment = (np.zeros((count, HIDDEN_SIZE)) for count in (len(vocabulary), MAX_POSITIONS, 2))
    word[:, WORD] = word_vectors(vocabulary, stream)
    word[vocabulary.index("[PAD]")] = 0
    for name in ("[CLS]", "[SEP]"):
        word[vocabulary.index(name), WORD] *= 0.3
        word[vocabulary.index(name), SPECIAL] = 4
    angles = np.arange(MAX_POSITIONS)[:, None] * FREQUENCIES
    position[:, POSITION] = 1.4 * np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
    segment[:, SEGMENT] = [1.5, -1.5]
    tables = {"word": word, "position": position, "token_type": segment}
    named = {f"embeddings.{name}_embeddings.weight": table for name, table in tables.items()}
    return named | {
        "embeddings.LayerNorm.weight": np.ones(HIDDEN_SIZE),
        "embeddings.LayerNorm.bias": np.zeros(HIDDEN_SIZE),
    }


def word_vectors(vocabulary: list[str], stream: Generator) -> Array:
    """Vectors of all word pieces, (pieces, 28): near for synonyms, less near for similar concepts."""
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
    """Returns a weighted sum of vectors; the keys are their shares of its squared length."""
    blended: Array = np.sum([np.sqrt(share) * vector for share, vector in parts.items()], axis=0)
    return blended


def equal_halves(vectors: Array) -> Array:
    """Scales both halves of each vector to length sqrt(14), so that all words match themselves equally well."""
    halves = vectors.reshape(len(vectors), 2, -1)
    scaled: Array = halves / np.sqrt((halves**2).mean(axis=2, keepdims=True))
    return scaled.reshape(len(vectors), -1)


def neighbour_layer(stream: Generator) -> WeightArrays:
    """Returns the first layer: the words at -1, -2 and +1, and the conjunction before."""
    layer = initial_layer(stream)
    for head, distance in enumerate(NEIGHBOUR_DISTANCES):
        attend_to_distance(layer, head, distance)
    attend_to_conjunction(layer, len(NEIGHBOUR_DISTANCES))
    for head in range(NUM_HEADS):
        layer["value.weight"][head_rows(head), WORD] = normal(stream, HEAD_SIZE, WORD.stop, scale=WORD.stop**-0.5)
        layer["attended.weight"][CONTEXT, head_rows(head)] = normal(stream, 15, HEAD_SIZE, scale=0.6 * HEAD_SIZE**-0.5)
    layer["inner.weight"] = normal(stream, INTERMEDIATE_SIZE, HIDDEN_SIZE, scale=HIDDEN_SIZE**-0.5)
    # Later layers need no positions: random features of a word and its context replace them.
    layer["outer.weight"][POSITION] = normal(stream, 8, INTERMEDIATE_SIZE, scale=0.5 * (INTERMEDIATE_SIZE / 2) ** -0.5)
    return layer


def attend_to_distance(layer: WeightArrays, head: int, distance: int) -> None:
    """Lets a head attend from position i to i + distance: its query is the position rotated by that many steps."""
    start, count = head_rows(head).start, len(FREQUENCIES)
    for index, angle in enumerate(FREQUENCIES * distance):
        cosine, sine = start + index, start + count + index
        position = [POSITION.start + index, POSITION.start + count + index]
        layer["query.weight"][cosine, position] = 5 * np.array([np.cos(angle), -np.sin(angle)])
        layer["query.weight"][sine, position] = 5 * np.array([np.sin(angle), np.cos(angle)])
        layer["key.weight"][[cosine, sine], position] = 1


def attend_to_conjunction(layer: WeightArrays, head: int) -> None:
    """Lets a head attend to earlier words, by sin(w (i - j)) at the lowest frequency w, above all to a conjunction."""
    start, cosine, sine = head_rows(head).start, POSITION.start, POSITION.start + len(FREQUENCIES)
    layer["query.weight"][start, sine], layer["key.weight"][start, cosine] = 6, 1
    layer["query.weight"][start + 1, cosine], layer["key.weight"][start + 1, sine] = -6, 1
    layer["query.bias"][start + 2] = 8 * HEAD_SIZE**0.5
    layer["key.weight"][start + 2, WORD] = CONJUNCTION_MARK / (0.8 * WORD.stop)


def match_layer(stream: Generator) -> WeightArrays:
    """Returns the second layer: each word's match in the other text, if there is one, and the difference of their
    contexts."""
    layer = initial_layer(stream)
    for head in (0, 1):
        attend_to_match(layer, head)
        subtract_context_of_match(layer, head)
    for head in (2, 3):
        add_random_attention(layer, head, stream)
        layer["attended.weight"][:, head_rows(head)] = normal(
            stream, HIDDEN_SIZE, HEAD_SIZE, scale=0.3 * HEAD_SIZE**-0.5
        )
    take_absolute_difference(layer, stream)
    return layer


def attend_to_match(layer: WeightArrays, head: int) -> None:
    """Lets a head attend to the word in the other text that agrees in one half of the vector, or else to [SEP]."""
    start, root = head_rows(head).start, HEAD_SIZE**0.5
    rows = np.arange(start, start + HALF_WORD)
    layer["query.weight"][rows, rows - start + head * HALF_WORD] = 9 * root / HALF_WORD
    layer["key.weight"][rows, rows - start + head * HALF_WORD] = 1
    layer["query.weight"][start + HALF_WORD, SEGMENT], layer["key.weight"][start + HALF_WORD, SEGMENT] = -2 * root, 0.5
    layer["query.bias"][start + HALF_WORD + 1], layer["key.weight"][start + HALF_WORD + 1, SPECIAL] = 5 * root, 0.25


def subtract_context_of_match(layer: WeightArrays, head: int) -> None:
    """Subtracts half of the match's context from a word's own, and marks words without a match."""
    start, last = head_rows(head).start, head_rows(head).stop - 1
    layer["value.weight"][head_rows(head)] = 0
    layer["value.weight"][start:last, CONTEXT] = np.eye(15)
    layer["value.weight"][last, SPECIAL] = 0.25
    layer["attended.weight"][CONTEXT, start:last] = -np.eye(15) / 2
    layer["attended.weight"][MATCH.start + head, last] = -4


def take_absolute_difference(layer: WeightArrays, stream: Generator) -> None:
    """|difference of the contexts| along random directions, only for words with a match."""
    direction = normal(stream, INTERMEDIATE_SIZE // 2, 15, scale=15**-0.5)
    layer["inner.weight"][:, CONTEXT] = np.concatenate([direction, -direction])
    layer["inner.weight"][:, [MATCH.start, MATCH.start + 1]] = 0.5
    spread = np.abs(normal(stream, 6, INTERMEDIATE_SIZE // 2, scale=(INTERMEDIATE_SIZE // 2) ** -0.5))
    layer["outer.weight"][MATCH.start + 2 : MATCH.stop] = np.concatenate([spread, spread], axis=1)


def gather_layer(stream: Generator) -> WeightArrays:
    """Returns the third layer: the mean of all words' comparisons, and random mixtures of everything."""
    layer = initial_layer(stream)
    for head in range(NUM_HEADS):
        add_random_attention(layer, head, stream)
    for part in ("query.weight", "key.weight", "value.weight"):
        layer[part][head_rows(0)] = 0
    layer["value.weight"][:8, MATCH] = np.eye(8)
    layer["query.bias"][0], layer["key.weight"][0, SPECIAL] = -3 * HEAD_SIZE**0.5, 0.25  # not from [CLS] and [SEP]
    layer["attended.weight"] = normal(stream, HIDDEN_SIZE, HIDDEN_SIZE, scale=HIDDEN_SIZE**-0.5)
    layer["attended.weight"][:, :8] *= 3
    layer["inner.weight"] = normal(stream, INTERMEDIATE_SIZE, HIDDEN_SIZE, scale=HIDDEN_SIZE**-0.5)
    layer["outer.weight"] = normal(stream, HIDDEN_SIZE, INTERMEDIATE_SIZE, scale=0.5 * INTERMEDIATE_SIZE**-0.5)
    # Large outputs let task heads, which start near 0, learn fast enough for a short run.
    layer["outer_norm.weight"] *= 2
    return layer


def add_random_attention(layer: WeightArrays, head: int, stream: Generator) -> None:
    for part, scale in (("query", 0.4), ("key", 1.0), ("value", 1.0)):
        layer[f"{part}.weight"][head_rows(head)] = normal(
            stream, HEAD_SIZE, HIDDEN_SIZE, scale=scale * HIDDEN_SIZE**-0.5
        )


def head_rows(head: int) -> slice:
    """Returns the rows of an attention head in queries, keys and values."""
    return slice(head * HEAD_SIZE, (head + 1) * HEAD_SIZE)


def initial_layer(stream: Generator) -> WeightArrays:
    """Returns a layer with BERT's initial weights: N(0, .02), biases 0, norms 1."""
    layer: WeightArrays = {}
    for name in BERT_NAMES:
        size, is_norm = INTERMEDIATE_SIZE if name == "inner" else HIDDEN_SIZE, name.endswith("norm")
        layer[f"{name}.weight"] = np.ones(size) if is_norm else normal(stream, size, HIDDEN_SIZE, scale=0.02)
        layer[f"{name}.bias"] = np.zeros(size)
    return layer
