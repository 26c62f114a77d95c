"""`KenlmModel`: every number of the package kenlm, recorded and by comparison with it; model
directories.
"""

import copy
import functools
import itertools
import json
import math
import os
import pickle
import random
from pathlib import Path

import pytest

from keras_nplm import KenlmModel
from keras_nplm.language_model import kenlm
from tests.tokenizers import build_model

WORDS = "a b c d <pad> <eps> #0 e\xa0e \u2028 \u200bf <UNK> <unk> <s> </s>".split(" ")
PROBABILITIES = "-99 -100 -120.5 -98.999 0 -0.0 -1e-3 -2.5E0 -.5 -3. -99.0 -1e-45".split()
BACKOFFS = [*PROBABILITIES, "0", "0.3", "+0.25"]
# ARPA files, each with sentences and the numbers of kenlm 0.3.0; KERAS_NPLM_RECORD=1 writes it
GOLDEN = Path(__file__).with_name("kenlm.json")


def format_arpa(*sections: list[str]) -> str:
    lines = ["\\data\\"]
    lines += [f"ngram {order}={len(ngrams)}" for order, ngrams in enumerate(sections, start=1)]
    for order, ngrams in enumerate(sections, start=1):
        lines += ["", f"\\{order}-grams:", *ngrams]
    return "\n".join([*lines, "", "\\end\\", ""])


def write_file(directory: Path, text: str) -> str:
    path = directory / "model.arpa"
    path.write_bytes(text.encode("utf-8"))
    return str(path)


def list_numbers(package, path: str, sentences: list[str]) -> list:
    """Return every number of sentences, of `keras_nplm.language_model.kenlm` or of kenlm."""
    model = package.Model(path)
    numbers: list = [model.order]
    for sentence in sentences:
        words = [*filter(None, sentence.split(" ")), "</s>"]
        numbers += [math.log10(model.perplexity(sentence)), *(word in model for word in words)]
        for bos, eos in itertools.product((True, False), repeat=2):
            numbers.append(model.score(sentence, bos=bos, eos=eos))
            numbers += itertools.chain(*model.full_scores(sentence, bos=bos, eos=eos))
        for write in (model.BeginSentenceWrite, model.NullContextWrite):
            state = package.State()
            write(state)
            for word in [*words, "a"]:
                after = package.State()
                numbers.append(model.BaseScore(state, word, after))
                state = after
    return numbers


def make_random_file(generator: random.Random) -> str:
    """Return an ARPA file with odd numbers: the context of each n-gram is listed, its ending often
    is not.
    """

    def choose_number(odd: list[str], greatest: float) -> str:
        is_odd = generator.random() < 0.3
        return generator.choice(odd) if is_odd else f"{-greatest * generator.random():.7g}"

    order = generator.randint(2, 5)
    listed = [w for w in WORDS if w in ("<s>", "</s>") or generator.random() < 0.8]
    if "<unk>" in listed and "<UNK>" in listed:
        listed.remove("<UNK>")
    sections: list[list[str]] = []
    ngrams = listed
    for k in range(1, order + 1):
        if k > 1:
            # as many endings as are listed: KenLM refuses a file with many more blanks than n-grams
            candidates = [f"{context} {word}" for context in ngrams for word in listed]
            number = generator.choice([0, 8, 40, 120])
            ngrams = generator.sample(candidates, min(len(candidates), number))
        lines = [f"{choose_number(PROBABILITIES, 3)}\t{ngram}" for ngram in ngrams]
        if k < order:
            lines = [
                line + f"\t{choose_number(BACKOFFS, 1)}" * (generator.random() < 0.7)
                for line in lines
            ]
        sections.append(lines)
    return format_arpa(*sections)


@pytest.mark.parametrize("number", range(5))
def test_numbers_and_lengths_are_those_of_kenlm(tmp_path, number):
    text, sentences, wanted = json.loads(GOLDEN.read_text())[number]
    found = list_numbers(kenlm, write_file(tmp_path, text), sentences)
    assert found == pytest.approx(wanted, abs=1e-4, rel=1e-5)


@pytest.mark.packages
def test_recorded_numbers_are_those_of_the_package(tmp_path):
    real = pytest.importorskip("kenlm", reason="kenlm is not installed: pip install kenlm")
    cases = []
    for text, sentences, _ in json.loads(GOLDEN.read_text()):
        numbers = list_numbers(real, write_file(tmp_path, text), sentences)
        cases.append([text, sentences, numbers])
    if os.environ.get("KERAS_NPLM_RECORD"):
        GOLDEN.write_text(json.dumps(cases) + "\n")
    assert cases == json.loads(GOLDEN.read_text())


def write_accepted_file(generator: random.Random, real, directory: Path) -> str:
    while True:
        path = write_file(directory, make_random_file(generator))
        try:
            real.Model(path)
        except OSError as error:
            assert "Avoid pruning" in str(error)  # its tables have room for few blanks
        else:
            return path


@pytest.mark.packages
@pytest.mark.parametrize("seed", range(40))
def test_files_are_scored_as_by_kenlm(tmp_path, seed):
    """Files that `write_arpa` writes: see `tests/models/ngrams/test_orders.py`."""
    real = pytest.importorskip("kenlm", reason="kenlm is not installed: pip install kenlm")
    generator = random.Random(seed)
    path = write_accepted_file(generator, real, tmp_path)
    draw = functools.partial(generator.choices, [*WORDS, "x"])
    sentences = [" ".join(draw(k=generator.randint(0, 9))) for _ in range(12)]
    found, wanted = (list_numbers(package, path, sentences) for package in (kenlm, real))
    assert found == pytest.approx(wanted, abs=1e-4, rel=1e-5)


UNIGRAMS = ["-1.2\t<unk>", "-99\t<s>\t-0.4", "-1.1\t</s>", "-0.7\ta\t-0.3", "-0.8\tbé"]
BIGRAMS = ["-0.3\t<s> a", "-0.5\ta bé"]


def test_files_that_cannot_be_read_are_refused(tmp_path, messages):
    texts = {
        "binary": "mmap lm http://kheafield.com/code format version 5\n\0",
        "no begin": format_arpa([UNIGRAMS[0], *UNIGRAMS[2:]], BIGRAMS[1:]),
        "no end": format_arpa(UNIGRAMS[:2] + UNIGRAMS[3:], BIGRAMS),
        "repeated": format_arpa([*UNIGRAMS, "-0.1\ta\t-0.1"], BIGRAMS),
        "two unknown": format_arpa([*UNIGRAMS, "-3\t<UNK>\t-0.9"], BIGRAMS),
    }
    (tmp_path / "directory").mkdir()
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    for name in ("absent.arpa", "directory", *texts):
        messages.refuse(lambda name=name: KenlmModel(tmp_path / name))


def test_files_of_order_1_are_read(tmp_path):
    unigrams = ["-0.7\ta", "-0.8\tb", "-99\t<s>", "-1\t</s>"]
    model = KenlmModel(write_file(tmp_path, format_arpa(unigrams)))
    assert [*model.full_scores("a x")] == [
        (pytest.approx(-0.7), 1, False),
        (pytest.approx(-100), 1, True),
        (pytest.approx(-1), 1, False),
    ]
    assert model.BaseScore(kenlm.State(), "b", kenlm.State()) == pytest.approx(-0.8)


def test_words_paths_and_sentences_may_be_bytes(tmp_path):
    path = write_file(tmp_path, format_arpa(UNIGRAMS, BIGRAMS))
    model = kenlm.Model(path.encode())
    assert (model.path, model.order) == (path.encode(), 2)
    assert model.score("a\x0cbé zebra".encode()) == KenlmModel(Path(path)).score("a bé zebra")
    assert "bé".encode() in model and b"b\xe9" not in model
    assert model.score(b"a b\xe9 bad") == model.score("a new bad")


def test_states_are_values(tmp_path):
    model = kenlm.Model(write_file(tmp_path, format_arpa(UNIGRAMS, BIGRAMS)))
    begin = kenlm.State()
    model.BeginSentenceWrite(begin)
    state = copy.copy(begin)
    model.BaseScore(state, "a", state)  # one state may be in and out
    assert begin == pickle.loads(pickle.dumps(begin)) and len({begin, copy.deepcopy(begin)}) == 1
    assert begin != state and (begin < state) != (begin > state)
    model.BaseScore(state, "x", state)
    assert state == kenlm.State()  # after an unknown word no word counts


def test_a_directory_has_the_perplexity_of_its_words_and_its_ends(tmp_path):
    for boundary in ("sentence", "stream"):
        language_model = build_model("words", ["the cat sat", "that hat"] * 9, boundary=boundary)
        language_model.save(tmp_path / boundary)
        model = kenlm.Model(tmp_path / boundary)
        for line in ("the cat sat", ""):
            tokens = len(line.split()) + (boundary == "sentence")
            total = model.score(line, eos=boundary == "sentence")
            assert model.perplexity(line) == pytest.approx(10 ** (-total / max(1, tokens)))
        assert ["the" in model, "<s>" in model, "</s>" in model] == [True] * 3
        assert "<pad>" not in model
