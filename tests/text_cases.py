"""Texts that one of Python, served graphs and the page has read in another way than the others.

`text_cases.json` has texts with their `tokens` by tokenizer, `odd` characters that stand in
`patterns`, and `invalid` UTF-8 in hexadecimal. A new case is added there by hand.

`text_answers.json` has texts by tokenizer and boundary, with what a bigram model of `LINES` says of
each: the `ids` of its end, its `score`, the `next` words, the words that `complete` it, and the
`whole` text that continues it. A new case is a text with the answer {}:
`KERAS_NPLM_RECORD=1 pytest tests/language_model/test_text_answers.py` writes all answers.
"""

import functools
import json
from pathlib import Path
from typing import Any

from keras_nplm import LanguageModel, Subwords, Vocabulary
from keras_nplm.data.tokenizers.normalisation import build_form_table
from keras_nplm.data.tokenizers.registry import get_tokenizer
from keras_nplm.io.files import read_json
from tests.tokenizers import build_model, build_vocabulary

CASES = read_json(Path(__file__).with_name("text_cases.json"))
ANSWERS_FILE = Path(__file__).with_name("text_answers.json")
ANSWERS: dict[str, dict[str, dict[str, Any]]] = read_json(ANSWERS_FILE)
TOKENS: dict[str, dict[str, list[str]]] = CASES["tokens"]
PROMPTS = [*TOKENS]
ODD = [*map(chr, range(0x21)), *map(chr, range(0x7F, 0xA1)), *CASES["odd"]]
ODD_TEXTS = [pattern.replace("{0}", odd) for odd in ODD for pattern in CASES["patterns"]]
ODD_TEXTS += ["x" * 3000, "the" + " " * 500, " " * 500 + "the"]
INVALID = [*map(bytes.fromhex, CASES["invalid"])]
LINES = [
    "the cat's hat, the ÉCOLE on 3 mats 1,000 a_b",
    "The cat sat; a re-used x_1 chat costs 1960s",
    "我们可以 say ΟΔΟΣ İ is “far” 0000 www",
    "a\xa0b:\u3000c é",
    "▁ go, sit b .",
] * 9
LEMMAS = {"cats": "cat", "sat": "sit", "went": "go", "going": "go", "goings": "going", "a": "b"}


@functools.cache
def build_case_vocabulary(tokenizer: str, subwords: str = "unigram") -> Vocabulary:
    """Return the vocabulary of `LINES`, for a tokenizer with or without steps."""
    if get_tokenizer(tokenizer).is_trained:
        return Vocabulary.from_subwords(_train_subwords(subwords))
    vocabulary = build_vocabulary(tokenizer, LINES)
    if "lemmas" in tokenizer:
        before = get_tokenizer(tokenizer.removesuffix("+lemmas"))
        vocabulary = vocabulary.with_forms(build_form_table(LEMMAS, before.split))
    return vocabulary


@functools.cache
def _train_subwords(kind: str) -> Subwords:
    # on the lines as they are, whatever the steps
    return Subwords.train(LINES, 360, kind)


@functools.cache
def build_case_model(tokenizer: str, boundary: str = "sentence", order: int = 3) -> LanguageModel:
    """Return a Kneser-Ney model of `LINES`."""
    return build_model(tokenizer, LINES, order, boundary, build_case_vocabulary(tokenizer))


def write_answers(answers: dict[str, dict[str, dict[str, Any]]]) -> None:
    """Write `text_answers.json`, a line for each text."""
    models = []
    for name, of_model in answers.items():
        lines = [f"  {json.dumps(text)}: {json.dumps(one)}" for text, one in of_model.items()]
        models.append(f" {json.dumps(name)}: {{\n" + ",\n".join(lines) + "\n }")
    ANSWERS_FILE.write_text("{\n" + ",\n".join(models) + "\n}\n", encoding="utf-8")
