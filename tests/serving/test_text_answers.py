"""Answers of `tests/text_answers.json` are those of served functions and of a page."""

from typing import Any

import pytest

from keras_nplm.serving.signatures import ServingModule
from tests.serving.served import answer
from tests.serving.test_page_script import NODE, read_prompts
from tests.text_cases import ANSWERS, build_case_model

SEARCHES = ("characters", "bytes", "sentencepiece")  # for words of several tokens: a second each
NAMES = [
    pytest.param(name, marks=[pytest.mark.long] * name.startswith(SEARCHES)) for name in ANSWERS
]


def choose_texts(name: str) -> dict[str, dict[str, Any]]:
    """Return the texts whose words are looked at, with their answers."""
    items = [*ANSWERS[name].items()]
    return dict(items[4::4] if name.startswith(SEARCHES) else items)


def check_words(found: dict[str, float], recorded: dict[str, float], text: str) -> None:
    """Compare words with recorded ones, of which others may be equally probable."""
    assert [*found.values()] == pytest.approx([*recorded.values()], rel=1e-3), text
    for word in {*found} & {*recorded}:
        assert found[word] == pytest.approx(recorded[word], rel=1e-3), (text, word)
    least = min(recorded.values(), default=0)
    assert {word for word, p in recorded.items() if p > 1.001 * least} <= {*found}, text


@pytest.mark.parametrize("name", NAMES)
def test_served_words_are_those_that_are_recorded(name):
    functions = ServingModule(build_case_model(*name.split(), order=2), 3).functions
    answers = choose_texts(name)
    for key, function in (("next", "predict_next"), ("complete", "complete_prefix")):
        served = answer(functions[function], [*answers])
        rows = zip(served["words"].numpy(), served["probabilities"].numpy(), strict=True)
        for (text, recorded), (words, probabilities) in zip(answers.items(), rows, strict=True):
            pairs = zip(words.tolist(), probabilities.tolist(), strict=True)
            found = {word.decode(): p for word, p in pairs if word}
            check_words(found, recorded[key], text)


@pytest.mark.parametrize("name", ANSWERS)
def test_served_scores_are_those_that_are_recorded(name):
    functions = ServingModule(build_case_model(*name.split(), order=2), 3).functions
    answers = ANSWERS[name]
    served = answer(functions["score"], [*answers])
    columns = (served[key].numpy().tolist() for key in ("log_prob", "tokens", "unk_tokens"))
    for text, *scores in zip(answers, *columns, strict=True):
        assert scores == pytest.approx(answers[text]["score"], rel=1e-4, abs=1e-5), text


@pytest.mark.skipif(not NODE, reason="node is not installed")
@pytest.mark.parametrize("name", [each for each in NAMES if "sentencepiece" not in each.values[0]])
def test_answers_of_a_page_are_those_that_are_recorded(name):
    model = build_case_model(*name.split(), order=2)
    contexts = read_prompts(model, 9, [*ANSWERS[name]])
    assert [each["ids"] for each in contexts] == [each["ids"] for each in ANSWERS[name].values()]
    answers = choose_texts(name)
    is_character = name.startswith("characters")
    found = read_prompts(model, 2, [*answers], k=4)  # one may be the end of a sentence
    for (text, recorded), each in zip(answers.items(), found, strict=True):
        # of characters, `next_words` returns single ones
        completes = each["unfinished"] or is_character
        words = [word for word in each["found"] if not (completes and word["isEnd"])]
        probabilities = {word["word"]: word["probability"] for word in words[:3]}
        check_words(probabilities, recorded["complete" if completes else "next"], text)
