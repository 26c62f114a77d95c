"""`KenlmModel`: the numbers and n-gram lengths of kenlm 0.3.0, as literals and by comparison with
it; model directories.
"""

import copy
import math
import pickle
import random
from pathlib import Path

import pytest

from keras_nplm import KenlmModel, Vocabulary, kneser_ney, write_arpa
from keras_nplm.data.shards import encode_lines
from keras_nplm.language_model import kenlm
from tests.tokenizers import KINDS, build_model

UNIGRAMS = [
    "-1.2\t<unk>\t0",
    "-99\t<s>\t-0.4",
    "-1.1\t</s>",
    "-0.7\ta\t-0.3",
    "-0.8\tb\t-0.25",
    "-0.9\tc\t-0.2",
]
BIGRAMS = ["-0.3\t<s> a\t-0.15", "-0.5\ta b\t-0.1", "-0.6\tb c\t-0.05", "-0.4\tc </s>"]
TRIGRAMS = ["-0.2\t<s> a b", "-0.25\ta b c", "-0.15\tb c </s>"]


def format_arpa(*sections: list[str]) -> str:
    lines = ["\\data\\"]
    lines += [f"ngram {order}={len(ngrams)}" for order, ngrams in enumerate(sections, start=1)]
    for order, ngrams in enumerate(sections, start=1):
        lines += ["", f"\\{order}-grams:", *ngrams]
    return "\n".join([*lines, "", "\\end\\", ""])


def replace_unigram(old: str, new: str) -> str:
    lines = [line.replace(old, new) for line in UNIGRAMS]
    assert lines != UNIGRAMS
    return format_arpa([line for line in lines if line], BIGRAMS, TRIGRAMS)


WHOLE = format_arpa(UNIGRAMS, BIGRAMS, TRIGRAMS)
BEGIN_INSIDE = format_arpa(
    UNIGRAMS,
    [*BIGRAMS, "-0.6\ta <s>\t-0.3", "-0.1\t</s> <s>\t-0.2"],
    [*TRIGRAMS, "-0.05\ta <s> a", "-0.07\t</s> <s> a"],
)
UNKNOWN_INSIDE = format_arpa(
    UNIGRAMS,
    [*BIGRAMS, "-0.3\t<unk> a\t-0.2", "-0.33\ta <unk>\t-0.3"],
    [*TRIGRAMS, "-0.05\ta <unk> a"],
)
# Pruned: "a b c" and "<s> a c" are listed, "b c" and "a c" are not
BLANKS = format_arpa(
    UNIGRAMS,
    [
        "-0.3\t<s> a\t-0.15",
        "-0.5\ta b\t-0.1",
        *(f"-0.5\t{v} {w}\t-0.01" for v in "cb" for w in "ab"),
        "-0.6\tc c",
    ],
    ["-0.25\ta b c", "-0.35\t<s> a c"],
)
PADDING = format_arpa([*UNIGRAMS, "-0.5\t<pad>\t-0.1"], [*BIGRAMS, "-0.1\t<pad> a\t-0.2"], TRIGRAMS)
REPEATED = format_arpa([*UNIGRAMS, "-0.1\ta\t-0.1"], [*BIGRAMS, "-0.1\ta b\t-0.2"], TRIGRAMS)
TWO_UNKNOWN = format_arpa([*UNIGRAMS, "-3\t<UNK>\t-0.9"], BIGRAMS, TRIGRAMS)

# An ARPA file, a sentence, and of each word and </s>: log10 P and the length of its n-gram, in
# kenlm 0.3.0
ANSWERS = [
    pytest.param(WHOLE, "a b c", [-0.3, -0.2, -0.25, -0.15], [2, 3, 3, 3], id="listed n-grams"),
    pytest.param(
        WHOLE,
        "a </s> <s> a <unk> <UNK> b",
        [-0.3, -1.55, -99.0, -0.3, -1.65, -1.2, -0.8, -1.35],
        [2, 1, 1, 2, 1, 1, 1, 1],
        id="markers inside",
    ),
    pytest.param(
        replace_unigram("-1.1\t</s>", "-120\t</s>"),
        "a b x",
        [-0.3, -0.2, -1.55, -120.0],
        [2, 3, 1, 1],
        id="</s> below -99",
    ),
    pytest.param(
        replace_unigram("<unk>\t0", "<UNK>\t-0.6"),
        "x a",
        [-1.6, -1.3, -1.4],
        [1, 1, 1],
        id="<UNK> with a back-off",
    ),
    pytest.param(
        replace_unigram("-1.2\t<unk>\t0", ""), "x a", [-100.4, -0.7, -1.4], [1, 1, 1], id="no <unk>"
    ),
    pytest.param(
        UNKNOWN_INSIDE,
        "a x a <unk>",
        [-0.3, -0.48, -0.05, -0.53, -1.4],
        [2, 2, 3, 2, 1],
        id="<unk> in n-grams",
    ),
    pytest.param(
        BEGIN_INSIDE,
        "a <s> a </s> <s> a",
        [-0.3, -0.75, -0.05, -1.55, -0.1, -0.07, -1.55],
        [2, 2, 3, 1, 2, 3, 1],
        id="<s> inside n-grams",
    ),
    pytest.param(
        PADDING, "a <pad> a", [-0.3, -0.95, -0.1, -1.6], [2, 1, 2, 1], id="<pad> in the file"
    ),
    pytest.param(
        WHOLE.replace("c", "c\xa0\u2028\u200b"),
        "b c\xa0\u2028\u200b\x0cc",
        [-1.2, -0.6, -1.45, -1.1],
        [1, 2, 1, 1],
        id="odd spaces in words and between them",
    ),
    pytest.param(
        BLANKS,
        "b c c a c",
        [-1.2, -1.15, -0.6, -0.5, -1.21, -1.3],
        [1, 2, 2, 2, 2, 1],
        id="a blank after a blank",
    ),
]


def write_file(directory: Path, text: str) -> str:
    path = directory / "model.arpa"
    path.write_bytes(text.encode("utf-8"))
    return str(path)


@pytest.mark.parametrize(("text", "sentence", "log_probs", "lengths"), ANSWERS)
def test_numbers_and_lengths_are_those_of_kenlm(tmp_path, text, sentence, log_probs, lengths):
    model = KenlmModel(write_file(tmp_path, text))
    scores = [*model.full_scores(sentence)]
    assert [score.log_prob for score in scores] == pytest.approx(log_probs, abs=1e-5)
    assert [score.ngram_length for score in scores] == lengths
    assert model.score(sentence) == pytest.approx(sum(log_probs), rel=1e-6)
    perplexity = 10 ** (-sum(log_probs) / len(lengths))
    assert model.perplexity(sentence) == pytest.approx(perplexity, rel=1e-4)
    state = kenlm.State()
    model.BaseScore(kenlm.State(), "b", state)
    model.BeginSentenceWrite(state)  # the word before does not count
    for word, score in zip([*split(sentence), "</s>"], scores, strict=True):
        log_prob = model.BaseScore(state, word, kenlm.State())
        assert model.BaseFullScore(state, word, state) == score  # one state may be in and out
        assert log_prob == score.log_prob
    alone = model.score("b", bos=False, eos=False)
    assert model.BaseScore(kenlm.State(), "b", kenlm.State()) == alone


def split(sentence: str) -> list[str]:
    return sentence.replace("\x0c", " ").split(" ")


def test_files_that_cannot_be_read_are_refused(tmp_path, messages):
    texts = {
        "binary": "mmap lm http://kheafield.com/code format version 5\n\0",
        "no begin": replace_unigram("-99\t<s>\t-0.4", "").replace("<s> ", "a "),
        "no end": format_arpa(UNIGRAMS[:2] + UNIGRAMS[3:], BIGRAMS[:3], []),
        "repeated": REPEATED,
        "two unknown": TWO_UNKNOWN,
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
    state = kenlm.State()
    model.BeginSentenceWrite(state)
    assert model.BaseScore(state, "b", kenlm.State()) == pytest.approx(-0.8)


def test_words_paths_and_sentences_may_be_bytes(tmp_path):
    path = write_file(tmp_path, WHOLE.replace("c", "bé"))
    model = kenlm.Model(path.encode())
    assert (model.path, model.order) == (path.encode(), 3)
    assert model.score("a bé zebra".encode()) == KenlmModel(Path(path)).score("a bé zebra")
    assert "bé".encode() in model and b"b\xe9" not in model
    assert model.score(b"a b\xe9 bad") == model.score("a new bad")


def test_states_are_values(tmp_path):
    model = kenlm.Model(write_file(tmp_path, WHOLE))
    begin = kenlm.State()
    model.BeginSentenceWrite(begin)
    state = copy.copy(begin)
    model.BaseScore(state, "a", state)
    assert begin == pickle.loads(pickle.dumps(begin)) and len({begin, copy.deepcopy(begin)}) == 1
    assert begin != state and (begin < state) != (begin > state)
    model.BaseScore(state, "x", state)
    assert state == kenlm.State()  # after an unknown word no word counts


@pytest.mark.parametrize("boundary", ["sentence", "stream"])
@pytest.mark.parametrize("tokenizer", KINDS)
def test_a_model_directory_has_the_scores_of_its_text(tmp_path, tokenizer, boundary):
    lines = ["the cat sat on the mat", "that new hat"] * 9
    language_model = build_model(tokenizer, lines, boundary=boundary)
    language_model.save(tmp_path / "model")
    model = kenlm.Model(tmp_path / "model")
    [score] = language_model.score(lines[:1])
    ends = boundary == "sentence"
    rows = [*model.full_scores(lines[0], eos=ends)]
    assert len(rows) == 6 + ends
    assert sum(row.log_prob for row in rows) == pytest.approx(score.log_prob / math.log(10))
    nats_per_word = model.score(lines[0], eos=ends) * math.log(10) / len(rows)
    assert model.perplexity(lines[0]) == pytest.approx(math.exp(-nats_per_word))
    assert model.perplexity("") == pytest.approx(10 ** -model.score("", eos=ends))
    assert ["the" in model, "<s>" in model, "</s>" in model] == [True] * 3
    if tokenizer == "whitespace":
        assert "<pad>" not in model and model.score("the <pad> sat") == model.score("the zzz sat")


def compare(ours: KenlmModel, theirs, real, sentences: list[str]) -> None:
    """Compare every number with those of the package kenlm, `real`."""
    assert ours.order == theirs.order
    for sentence in sentences:
        assert ours.perplexity(sentence) == pytest.approx(theirs.perplexity(sentence), rel=1e-3)
        for bos, eos in ((True, True), (True, False), (False, True), (False, False)):
            found = list(ours.full_scores(sentence, bos, eos))
            wanted = list(theirs.full_scores(sentence, bos=bos, eos=eos))
            assert [score[1:] for score in found] == [score[1:] for score in wanted]
            log_probs = [score[0] for score in wanted]
            assert [score[0] for score in found] == pytest.approx(log_probs, abs=1e-4)
            total = theirs.score(sentence, bos=bos, eos=eos)
            assert ours.score(sentence, bos, eos) == pytest.approx(total, abs=1e-3)
        for write in ("BeginSentenceWrite", "NullContextWrite"):
            before = kenlm.State()
            real_before = real.State()
            getattr(ours, write)(before)
            getattr(theirs, write)(real_before)
            for word in [*sentence.split(" "), "</s>", "a"]:
                assert (word in ours) == (word in theirs)
                real_after = real.State()
                score = ours.BaseFullScore(before, word, before)
                expected = theirs.BaseFullScore(real_before, word, real_after)
                assert score[1:] == (expected.ngram_length, expected.oov)
                assert score.log_prob == pytest.approx(expected.log_prob, abs=1e-4)
                real_before = real_after


WORDS = "a b c d <pad> <eps> #0 e\xa0e \u2028 \u200bf <UNK> <unk> <s> </s>".split(" ")
PROBABILITIES = "-99 -100 -120.5 -98.999 0 -0.0 -1e-3 -2.5E0 -.5 -3. -99.0 -1e-45".split()
BACKOFFS = [*PROBABILITIES, "0", "0.3", "+0.25"]


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


def read_random_file(directory: Path, generator: random.Random, real) -> tuple[str, object]:
    """Return the path of a random file that KenLM reads, and its model of it."""
    while True:
        path = write_file(directory, make_random_file(generator))
        try:
            return path, real.Model(path)
        except OSError as error:
            assert "Avoid pruning" in str(error)  # its tables have room for few blanks


@pytest.mark.packages
@pytest.mark.parametrize("seed", range(40))
def test_random_files_are_scored_as_by_kenlm(tmp_path, seed):
    real = pytest.importorskip("kenlm", reason="kenlm is not installed: pip install kenlm")
    generator = random.Random(seed)
    path, theirs = read_random_file(tmp_path, generator, real)
    sentences = [
        " ".join(generator.choices([*WORDS, "x"], k=generator.randint(0, 9))) for _ in range(12)
    ]
    compare(KenlmModel(path), theirs, real, sentences)


@pytest.mark.packages
@pytest.mark.parametrize("boundary", ["sentence", "stream"])
def test_files_that_are_written_are_scored_as_by_kenlm(tmp_path, boundary):
    real = pytest.importorskip("kenlm", reason="kenlm is not installed: pip install kenlm")
    lines = ["the Cat sat, 3 hats", "that cat's hat", "a mat: the act"] * 4
    vocabulary = Vocabulary.build(lines, tokenizer="whitespace", max_size=12)
    ids = encode_lines(lines, vocabulary, "whitespace", boundary)
    path = str(tmp_path / "model.arpa")
    write_arpa(path, kneser_ney(ids, len(vocabulary), 3, boundary), vocabulary)
    sentences = ["the Cat sat, 3 hats", "that new hat </s> the <unk> Cat", "", "hats a"]
    compare(KenlmModel(path), real.Model(path), real, sentences)
