"""The weights of the tiny encoder: BERT's names and shapes, and the documented attention of its heads."""

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertModel

from mtlib.demo.encoder import make_vocabulary, model_config
from mtlib.demo.encoder_weights import make_weights

VOCABULARY = make_vocabulary()


@pytest.fixture(scope="module")
def model() -> BertModel:
    config = BertConfig(**model_config(len(VOCABULARY)), attn_implementation="eager")
    model = BertModel(config).eval()
    model.load_state_dict({name: torch.tensor(value) for name, value in make_weights(VOCABULARY, 0).items()})
    return model


def attend(model: BertModel, layer: int, first: str, second: str = "") -> tuple[list[str], np.ndarray]:
    """Tokens of an input and the attention of a layer's heads: (heads, from, to)."""
    pieces = ["[CLS]", *first.split(), "[SEP]"] + ([*second.split(), "[SEP]"] if second else [])
    segments = [0] * (len(first.split()) + 2) + [1] * (len(pieces) - len(first.split()) - 2)
    ids = torch.tensor([[VOCABULARY.index(piece) for piece in pieces]])
    with torch.no_grad():
        output = model(input_ids=ids, token_type_ids=torch.tensor([segments]), output_attentions=True)
    return pieces, output.attentions[layer][0].numpy()


@pytest.mark.parametrize(("head", "distance"), [(0, -1), (1, -2), (2, 1)])
def test_heads_of_the_first_layer_attend_to_neighbours(model: BertModel, head: int, distance: int) -> None:
    pieces, attention = attend(model, 0, "why do teachers help students ?", "why are pupils assisted by teachers ?")
    inside = range(max(0, -distance), len(pieces) - max(0, distance))
    assert [int(attention[head, place].argmax()) - place for place in inside] == [distance] * len(inside)


def test_a_head_of_the_first_layer_attends_to_a_preceding_conjunction(model: BertModel) -> None:
    pieces, attention = attend(model, 0, "the plot is good , but the cast is dull .")
    after = range(pieces.index("cast"), len(pieces) - 1)
    assert {pieces[int(attention[3, place].argmax())] for place in after} == {"but"}


def test_heads_of_the_second_layer_attend_to_a_synonym_in_the_other_text(model: BertModel) -> None:
    pieces, attention = attend(model, 1, "why do teachers help students ?", "why are pupils assisted by doctors ?")
    found = attention[:2].mean(axis=0)
    for one, other in (("students", "pupils"), ("help", "assisted"), ("pupils", "students"), ("assisted", "help")):
        assert pieces[int(found[pieces.index(one)].argmax())] == other
    assert pieces[int(found[pieces.index("doctors")].argmax())] in ("[CLS]", "[SEP]")
