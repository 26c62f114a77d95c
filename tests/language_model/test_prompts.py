"""White space at the end of a prompt begins a word: next words, text, commands."""

import json

import pytest

from keras_nplm import LanguageModel
from keras_nplm.cli.main import main
from tests.tokenizers import KINDS, PARTS_OF_WORDS, build_model

LINES = ["red cats", "red dogs", "redder cats", "redder dogs"] * 60


@pytest.fixture(scope="module")
def models() -> dict[str, LanguageModel]:
    return {kind: build_model(kind, LINES, order=5) for kind in KINDS}


@pytest.fixture(scope="module")
def directories(models, tmp_path_factory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("models")
    for tokenizer, model in models.items():
        model.save(folder / tokenizer)
    return {tokenizer: str(folder / tokenizer) for tokenizer in models}


@pytest.mark.parametrize("tokenizer", KINDS)
def test_words_after_white_space_are_whole_words(models, tokenizer):
    model = models[tokenizer]
    words = {"cats", "dogs"}
    for blank in (" ", "   ", "\n", "\r\n", " \t"):
        assert {*dict(model.complete_prefix(f"red{blank}", 2))} == words
        next_words = {"c", "d"} if tokenizer == "characters" else words
        assert {*dict(model.next_words(f"red{blank}", 2))} == next_words
        # white space alone begins a text
        assert model.next_words(blank, 3) == model.next_words("", 3)
        assert model.complete_prefix(blank, 3) == model.complete_prefix("", 3)


@pytest.mark.parametrize("tokenizer", KINDS)
@pytest.mark.parametrize(
    "prompt", ["", " ", "red", "red ", "red  ", " red", "red\t", "red\n", "red\xa0"]
)
def test_generated_text_continues_the_prompt_as_given(directories, capsys, tokenizer, prompt):
    arguments = ["--num-words", "5", "--temperature", "0", "--prompt", prompt]
    assert main(["generate", directories[tokenizer], *arguments, "--json"]) == 0
    whole = json.loads(capsys.readouterr().out)["whole"]
    assert whole.startswith(prompt)
    rest = whole.removeprefix(prompt).partition("\n")[0]
    assert "  " not in rest
    # a no-break space is part of a word of `whitespace`
    is_word = (tokenizer, prompt) == ("whitespace", "red\xa0")
    if not prompt.strip() or (prompt[-1].isspace() and not is_word):
        assert rest.startswith(("cats", "dogs") if prompt.strip() else "red")
    elif rest:
        assert rest.startswith((" cats", " dogs", "der"))


@pytest.mark.parametrize("tokenizer", PARTS_OF_WORDS)
def test_sampled_text_after_a_space_never_doubles_it(models, tokenizer):
    model = models[tokenizer]
    texts = [model.generate("red ", 1, seed=seed, temperature=5.0) for seed in range(60)]
    assert not any(text.startswith((" ", "\u2581")) for text in texts)
    assert len({*texts}) > 5
    if tokenizer == "sentencepiece":
        # without the space a piece of the same word may follow
        texts = [model.generate("red", 1, seed=seed, temperature=5.0) for seed in range(60)]
        assert not all(text.startswith((" ", "\n")) for text in texts)
