"""Answers of `tests/text_answers.json` are those of language models and of decoders."""

import math
import os
from typing import Any

import pytest

from keras_nplm import CtcLanguageModel, KenlmModel, LanguageModel
from keras_nplm.language_model.generation import join_prompt
from tests.text_cases import ANSWERS, build_case_model, write_answers

RESERVED = ("<s>", "</s>", "<pad>")


def answer(model: LanguageModel, text: str) -> dict[str, Any]:
    [score] = model.score([text])
    generated = model.generate(text, 3, temperature=0)
    return {
        "ids": model.codec.encode_beginning(text, 9).tolist(),
        "score": [float(f"{score.log_prob:.6g}"), score.tokens, score.unk_tokens],
        "next": {word: float(f"{p:.5g}") for word, p in model.next_words(text, 3)},
        "complete": {word: float(f"{p:.5g}") for word, p in model.complete_prefix(text, 3)},
        "whole": join_prompt(text, generated, model.tokenizer),
    }


@pytest.mark.parametrize("name", ANSWERS)
def test_answers_are_those_that_are_recorded(name):
    model = build_case_model(*name.split(), order=2)
    found = {text: answer(model, text) for text in ANSWERS[name]}
    if os.environ.get("KERAS_NPLM_RECORD"):
        ANSWERS[name] = found
        write_answers(ANSWERS)
    for text, recorded in ANSWERS[name].items():
        for key, value in found[text].items():
            is_number = key not in ("ids", "whole")
            expected = pytest.approx(recorded[key], rel=1e-4) if is_number else recorded[key]
            assert value == expected, (text, key)
        assert recorded["whole"].startswith(text)
    if model.tokenizer.kind == "whitespace":  # others split reserved words
        for word in RESERVED:
            reserved = found[f"the {word} sat"]
            assert reserved["ids"] == found["the zzz sat"]["ids"]
            assert reserved["score"] == found["the zzz sat"]["score"]


@pytest.mark.parametrize("name", ANSWERS)
def test_decoders_have_the_recorded_scores(tmp_path, name):
    model = build_case_model(*name.split(), order=2)
    model.save(tmp_path / "model")
    kenlm = KenlmModel(tmp_path / "model")
    ctc = CtcLanguageModel(model, alpha=1, beta=0, unk_score_offset=0)
    eos = model.codec.predicts_end
    for text, recorded in ANSWERS[name].items():
        log_prob, _, unknown = recorded["score"]
        words = text.split()
        if not words or text != " ".join(words):
            continue
        of_ctc = 0.0
        state = ctc.get_start_state()
        for number, word in enumerate(words, start=1):
            score, state = ctc.score(state, word, is_last_word=number == len(words))
            of_ctc += score
        assert of_ctc == pytest.approx(log_prob, rel=1e-4), text
        if {"<s>", "</s>"} & {*words}:  # which are no unknown words for KenLM
            continue
        rows = [*kenlm.full_scores(text, eos=eos)]
        of_kenlm = math.log(10) * math.fsum(row.log_prob for row in rows)
        assert of_kenlm == pytest.approx(log_prob, rel=1e-4), text
        assert any(row.oov for row in rows) == (unknown > 0), text
