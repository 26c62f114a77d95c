"""A tokenizer of one's own is served by its graph, or refused by name."""

import pytest
import tensorflow as tf

from keras_nplm import InputError, Tokenizer
from keras_nplm.serving.signatures import ServingModule
from tests.tokenizers import build_model


class CommaTokenizer(Tokenizer):
    """Fields between commas."""

    kind = "commas"
    unit = "words"
    tokens_are_words = True
    allowed_steps = ("lower",)
    unfinished_word = r"[^,\ufffd]*\Z"

    def split(self, line):
        return self.normalise([*filter(None, "".join(line.split()).split(","))])

    def describe(self):
        return "Tokens are fields between commas."


class ServedCommaTokenizer(CommaTokenizer):
    def build_split_graph(self):
        def split(texts):
            texts = tf.strings.regex_replace(texts, "[ \t\n]+", "")
            tokens = tf.strings.split(texts, ",")
            return tf.ragged.boolean_mask(tokens, tokens != "")

        return split

    def match_partial_token(self):
        return "^[^,]*(,|$)"

    def match_unfinished_word(self):
        return r"[^,\x{fffd}]*"


LINES = ["Red cat,dog", "dog,Red cat,dog", "dog, cow"] * 5
TEXTS = ["", "dog", "dog,", "red cat,d", " a , b,c", "dog,dog,,red\tcat"]


def test_a_tokenizer_without_a_graph_is_refused_by_name():
    model = build_model(CommaTokenizer(), LINES)
    message = "`CommaTokenizer.match_partial_token` must be defined if .* `commas` is served"
    with pytest.raises(InputError, match=message):
        ServingModule(model)


@pytest.mark.parametrize(
    "steps", [pytest.param([], id="as it is"), pytest.param(["lower"], id="in lower case")]
)
def test_a_tokenizer_of_ones_own_is_served_as_in_python(steps):
    model = build_model(ServedCommaTokenizer(steps), LINES)
    served = ServingModule(model, top_k=2).functions
    scored = served["score"].compute(tf.constant(TEXTS))["log_prob"].numpy()
    assert scored == pytest.approx([score.log_prob for score in model.score(TEXTS)], abs=1e-4)
    proposed = served["predict_next"].compute(tf.constant(TEXTS))["probabilities"].numpy()
    completed = served["complete_prefix"].compute(tf.constant(TEXTS))["words"].numpy()
    for text, probabilities, words in zip(TEXTS, proposed, completed, strict=True):
        assert probabilities == pytest.approx([p for _, p in model.next_words(text, 2)], abs=1e-5)
        expected = [word for word, _ in model.complete_prefix(text, 2)]
        assert [word.decode() for word in words if word] == expected
