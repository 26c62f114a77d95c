"""`KenlmModel` of ARPA files: the numbers and n-gram lengths of kenlm 0.3.0, as literals and by
comparison with it.
"""

import copy
import itertools
import pickle
import random
from pathlib import Path

import pytest

from keras_nplm import InputError, KenlmModel
from keras_nplm.language_model import kenlm

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
BEGIN_AND_END = list(itertools.product((True, False), repeat=2))


def format_arpa(*sections: list[str]) -> str:
    counts = "".join(
        f"ngram {order}={len(lines)}\n" for order, lines in enumerate(sections, start=1)
    )
    bodies = (
        f"\n\\{order}-grams:\n" + "".join(f"{line}\n" for line in lines)
        for order, lines in enumerate(sections, 1)
    )
    return "\\data\\\n" + counts + "".join(bodies) + "\n\\end\\\n"


def replace_unigram(old: str, new: str) -> str:
    lines = [line.replace(old, new) for line in UNIGRAMS]
    assert lines != UNIGRAMS
    return format_arpa([line for line in lines if line], BIGRAMS, TRIGRAMS)


WHOLE = format_arpa(UNIGRAMS, BIGRAMS, TRIGRAMS)
END_EXTENDED = format_arpa(
    [line.replace("</s>", "</s>\t-0.5") for line in UNIGRAMS],
    [*BIGRAMS, "-0.6\t</s> a\t-0.3"],
    [*TRIGRAMS, "-0.05\tc </s> a"],
)
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
PHONES = format_arpa(
    [*UNIGRAMS, "-0.5\t<eps>\t-0.1", "-0.6\t#0"], [*BIGRAMS, "-0.1\t#0 <eps>"], TRIGRAMS
)
ODD_WORDS = WHOLE.replace("c", "c\xa0\u2028\u200b")
REPEATED = format_arpa(
    [*UNIGRAMS, "-0.1\ta\t-0.1"], [*BIGRAMS, "-0.1\ta b\t-0.2"], [*TRIGRAMS, "-0.1\ta b c"]
)
TWO_UNKNOWN = format_arpa([*UNIGRAMS, "-3\t<UNK>\t-0.9"], BIGRAMS, TRIGRAMS)

# An ARPA file, a sentence, and of each word and </s>: log10 P and the length of its n-gram, in
# kenlm 0.3.0
ANSWERS = [
    pytest.param(
        WHOLE, "a b c", [(-0.3, 2), (-0.2, 3), (-0.25, 3), (-0.15, 3)], id="listed n-grams"
    ),
    pytest.param(
        WHOLE, "a x b", [(-0.3, 2), (-1.65, 1), (-0.8, 1), (-1.35, 1)], id="unknown words"
    ),
    pytest.param(WHOLE, "", [(-1.5, 1)], id="an empty sentence"),
    pytest.param(
        WHOLE,
        "a </s> <s> a <unk> <UNK> b",
        [
            (-0.3, 2),
            (-1.5500001, 1),
            (-99.0, 1),
            (-0.3, 2),
            (-1.65, 1),
            (-1.2, 1),
            (-0.8, 1),
            (-1.35, 1),
        ],
        id="markers inside",
    ),
    pytest.param(
        replace_unigram("-1.1\t</s>", "-99\t</s>"),
        "a b x",
        [(-0.3, 2), (-0.2, 3), (-1.5500001, 1), (-99.0, 1)],
        id="</s> at -99",
    ),
    pytest.param(
        replace_unigram("-1.1\t</s>", "-120\t</s>"),
        "a b x",
        [(-0.3, 2), (-0.2, 3), (-1.5500001, 1), (-120.0, 1)],
        id="</s> below -99",
    ),
    pytest.param(
        replace_unigram("-1.2\t<unk>\t0", "-99\t<unk>"),
        "x a",
        [(-99.4, 1), (-0.7, 1), (-1.4000001, 1)],
        id="<unk> at -99",
    ),
    pytest.param(
        replace_unigram("-1.2\t<unk>\t0", "-120\t<unk>"),
        "x a",
        [(-120.4, 1), (-0.7, 1), (-1.4000001, 1)],
        id="<unk> at -120",
    ),
    pytest.param(
        replace_unigram("<unk>\t0", "<unk>\t-0.6"),
        "x a",
        [(-1.6, 1), (-1.3, 1), (-1.4000001, 1)],
        id="<unk> with a back-off",
    ),
    pytest.param(
        replace_unigram("<unk>", "<UNK>"),
        "x a",
        [(-1.6, 1), (-0.7, 1), (-1.4000001, 1)],
        id="<UNK>",
    ),
    pytest.param(
        replace_unigram("-1.2\t<unk>\t0", ""),
        "x a",
        [(-100.4, 1), (-0.7, 1), (-1.4000001, 1)],
        id="no <unk>",
    ),
    pytest.param(
        UNKNOWN_INSIDE,
        "a x a <unk>",
        [(-0.3, 2), (-0.48000002, 2), (-0.05, 3), (-0.53000003, 2), (-1.4000001, 1)],
        id="<unk> in n-grams",
    ),
    pytest.param(
        replace_unigram("-99\t<s>", "0\t<s>"),
        "c <s> a",
        [(-1.3, 1), (-0.2, 1), (-0.3, 2), (-1.5500001, 1)],
        id="<s> at 0",
    ),
    pytest.param(
        replace_unigram("<s>\t-0.4", "<s>"),
        "c b",
        [(-0.9, 1), (-1.0, 1), (-1.35, 1)],
        id="<s> without back-off",
    ),
    pytest.param(
        BEGIN_INSIDE,
        "a <s> a </s> <s> a",
        [
            (-0.3, 2),
            (-0.75, 2),
            (-0.05, 3),
            (-1.5500001, 1),
            (-0.1, 2),
            (-0.07, 3),
            (-1.5500001, 1),
        ],
        id="<s> inside n-grams",
    ),
    pytest.param(
        END_EXTENDED,
        "b c </s> a </s>",
        [(-1.2, 1), (-0.6, 2), (-0.15, 3), (-0.05, 3), (-1.7, 1), (-1.6, 1)],
        id="</s> as a context",
    ),
    pytest.param(
        WHOLE, "a <pad> b", [(-0.3, 2), (-1.65, 1), (-0.8, 1), (-1.35, 1)], id="<pad> in text alone"
    ),
    pytest.param(
        PADDING,
        "a <pad> a",
        [(-0.3, 2), (-0.95000005, 1), (-0.1, 2), (-1.6000001, 1)],
        id="<pad> in the file",
    ),
    pytest.param(
        PHONES,
        "#0 <eps> a #0",
        [(-1.0, 1), (-0.1, 2), (-0.8, 1), (-0.90000004, 1), (-1.1, 1)],
        id="<eps> and #0",
    ),
    pytest.param(
        ODD_WORDS,
        "b c\xa0\u2028\u200b c",
        [(-1.2, 1), (-0.6, 2), (-1.45, 1), (-1.1, 1)],
        id="odd spaces in words",
    ),
    pytest.param(
        WHOLE,
        "a\x0bb\x0cc\x1ca",
        [(-0.3, 2), (-0.2, 3), (-1.5500001, 1), (-1.1, 1)],
        id="vertical tab, form feed",
    ),
    pytest.param(
        BLANKS, "a b c", [(-0.3, 2), (-0.65, 2), (-0.25, 3), (-1.3000001, 1)], id="blanks"
    ),
    pytest.param(
        BLANKS,
        "b c c a c",
        [(-1.2, 1), (-1.15, 2), (-0.6, 2), (-0.5, 2), (-1.21, 2), (-1.3000001, 1)],
        id="a blank after a blank",
    ),
    pytest.param(
        replace_unigram("-0.7\ta", "-100\ta"),
        "b a",
        [(-1.2, 1), (-100.25, 1), (-1.4000001, 1)],
        id="-100",
    ),
    pytest.param(
        replace_unigram("-0.7\ta", "0\ta"), "b a", [(-1.2, 1), (-0.25, 1), (-1.4000001, 1)], id="0"
    ),
    pytest.param(
        replace_unigram("-0.7\ta\t-0.3", "-7E-1\ta\t-3.0e-01"),
        "b a a",
        [(-1.2, 1), (-0.95, 1), (-1.0, 1), (-1.4000001, 1)],
        id="exponents",
    ),
    pytest.param(
        replace_unigram("a\t-0.3", "a\t-99"),
        "a a",
        [(-0.3, 2), (-99.85, 1), (-100.1, 1)],
        id="back-off at -99",
    ),
    pytest.param(
        replace_unigram("a\t-0.3", "a\t-0.0"),
        "a a",
        [(-0.3, 2), (-0.85, 1), (-1.1, 1)],
        id="back-off -0.0",
    ),
    pytest.param(
        replace_unigram("a\t-0.3", "a\t3"),
        "a a",
        [(-0.3, 2), (2.1499999, 1), (1.9, 1)],
        id="back-off above 0",
    ),
    pytest.param(
        format_arpa(UNIGRAMS, BIGRAMS, []),
        "a b c",
        [(-0.3, 2), (-0.65, 2), (-0.70000005, 2), (-0.45000002, 2)],
        id="an empty highest order",
    ),
    pytest.param(
        format_arpa(UNIGRAMS, [], []),
        "a b c",
        [(-1.1, 1), (-1.1, 1), (-1.15, 1), (-1.3000001, 1)],
        id="all longer orders empty",
    ),
    pytest.param(
        WHOLE.replace("\n", "\r\n"),
        "a b c",
        [(-0.3, 2), (-0.2, 3), (-0.25, 3), (-0.15, 3)],
        id="CRLF",
    ),
    pytest.param(
        WHOLE.replace("a b", "a\tb").replace("\t", "\t\t"),
        "a b c",
        [(-0.3, 2), (-0.2, 3), (-0.25, 3), (-0.15, 3)],
        id="tabs between words",
    ),
    pytest.param(
        "# comment\n\n" + WHOLE.replace("\n-0.7", "\n\n -0.7") + " \n\n",
        "a b c",
        [(-0.3, 2), (-0.2, 3), (-0.25, 3), (-0.15, 3)],
        id="a comment, blank lines",
    ),
]


def write_file(directory: Path, text: str) -> str:
    path = directory / "model.arpa"
    path.write_bytes(text.encode("utf-8"))
    return str(path)


@pytest.mark.parametrize(("text", "sentence", "expected"), ANSWERS)
def test_numbers_and_lengths_are_those_of_kenlm(tmp_path, text, sentence, expected):
    model = KenlmModel(write_file(tmp_path, text))
    log_probs, lengths, _ = zip(*model.full_scores(sentence), strict=True)
    assert log_probs == pytest.approx([log_prob for log_prob, _ in expected], abs=1e-5)
    assert lengths == tuple(length for _, length in expected)
    total = sum(log_prob for log_prob, _ in expected)
    assert model.score(sentence) == pytest.approx(total, rel=1e-6)


@pytest.mark.packages
@pytest.mark.parametrize(("text", "sentence", "expected"), ANSWERS)
def test_named_files_are_scored_as_by_kenlm(tmp_path, text, sentence, expected):
    real = pytest.importorskip("kenlm", reason="kenlm is not installed: pip install kenlm")
    path = write_file(tmp_path, text)
    compare(KenlmModel(path), real.Model(path), real, [sentence])


def compare(ours: KenlmModel, theirs, real, sentences: list[str]) -> None:
    """Compare every number of two models."""
    assert ours.order == theirs.order
    for sentence in sentences:
        for bos, eos in BEGIN_AND_END:
            found = list(ours.full_scores(sentence, bos, eos))
            wanted = list(theirs.full_scores(sentence, bos=bos, eos=eos))
            assert [score[1:] for score in found] == [score[1:] for score in wanted]
            log_probs = [score[0] for score in wanted]
            assert [score[0] for score in found] == pytest.approx(log_probs, abs=1e-4)
            total = theirs.score(sentence, bos=bos, eos=eos)
            assert ours.score(sentence, bos, eos) == pytest.approx(total, abs=1e-3)
        for write in ("BeginSentenceWrite", "NullContextWrite", None):
            before = kenlm.State()
            real_before = real.State()
            if write:
                # A state that is used again: the words before do not count
                ours.BaseScore(kenlm.State(), "a", before)
                theirs.BaseScore(real.State(), "a", real_before)
                getattr(ours, write)(before)
                getattr(theirs, write)(real_before)
            for word in [*sentence.split(" "), "</s>", "a"]:
                assert (word in ours) == (word in theirs)
                after = kenlm.State()
                real_after = real.State()
                score = ours.BaseFullScore(before, word, after)
                expected = theirs.BaseFullScore(real_before, word, real_after)
                assert score[1:] == (expected.ngram_length, expected.oov)
                assert score.log_prob == pytest.approx(expected.log_prob, abs=1e-4)
                again = kenlm.State()
                assert ours.BaseScore(before, word, again) == score.log_prob
                assert again == after
                before = after
                real_before = real_after


@pytest.mark.parametrize(
    "text", [WHOLE, BLANKS, UNKNOWN_INSIDE], ids=["whole", "blanks", "unknown"]
)
def test_states_continue_the_words_before(tmp_path, text):
    model = KenlmModel(write_file(tmp_path, text))
    for bos in (True, False):
        state = kenlm.State()
        model.BaseScore(kenlm.State(), "b", state)
        write = model.BeginSentenceWrite if bos else model.NullContextWrite
        write(state)
        expected = [*model.full_scores("a b x c", bos=bos)]
        found = []
        for word in ["a", "b", "x", "c", "</s>"]:
            after = kenlm.State()
            found.append(tuple(model.BaseFullScore(state, word, after)))
            state = after
        assert found == expected
    # A new state is the null context
    assert model.BaseScore(kenlm.State(), "a", kenlm.State()) == model.score(
        "a", bos=False, eos=False
    )


REFUSED = [
    pytest.param(replace_unigram("-99\t<s>\t-0.4", "").replace("<s> ", "a "), id="no <s>"),
    pytest.param(format_arpa(UNIGRAMS[:2] + UNIGRAMS[3:], BIGRAMS[:3], []), id="no </s>"),
    pytest.param(replace_unigram("-0.7\ta", "0.7\ta"), id="P above 1"),
    pytest.param(replace_unigram("-0.7\ta", "nan\ta"), id="nan"),
    pytest.param(WHOLE.replace("a b c", "a b c\t-0.1"), id="back-off of the highest order"),
    pytest.param(WHOLE.replace("a b c", "a b d"), id="a word that is not listed"),
    pytest.param(WHOLE.replace("\\data", "\\DATA"), id="upper case"),
    pytest.param(WHOLE.replace("2-grams:", "2-GRAMS:"), id="upper case of a section"),
    pytest.param(WHOLE.replace("\\end\\\n", ""), id="cut short"),
]


def test_files_that_cannot_be_read_are_refused(tmp_path, messages):
    paths = [tmp_path / name for name in ("absent.arpa", "model.bin", "empty")]
    paths[1].write_bytes(b"mmap lm http://kheafield.com/code format version 5\n\0")
    paths[2].mkdir()
    for number, text in enumerate([*(row.values[0] for row in REFUSED), REPEATED, TWO_UNKNOWN]):
        paths.append(tmp_path / f"{number}.arpa")
        paths[-1].write_bytes(text.encode("utf-8"))
    for path in paths:
        messages.refuse(lambda path=path: KenlmModel(path), kenlm.ReadError)
    assert issubclass(kenlm.ReadError, OSError) and issubclass(kenlm.ReadError, InputError)


@pytest.mark.packages
@pytest.mark.parametrize("text", REFUSED)
def test_kenlm_refuses_these_files(tmp_path, text):
    real = pytest.importorskip("kenlm", reason="kenlm is not installed: pip install kenlm")
    with pytest.raises(OSError):
        real.Model(write_file(tmp_path, text))


def test_files_of_order_1_are_read(tmp_path):
    model = KenlmModel(
        write_file(
            tmp_path,
            format_arpa(
                [line.rsplit("\t", 1)[0] for line in UNIGRAMS[3:]] + ["-99\t<s>", "-1\t</s>"]
            ),
        )
    )
    assert model.order == 1
    log_probs, lengths, unknown = zip(*model.full_scores("a x"), strict=True)
    assert log_probs == pytest.approx([-0.7, -100, -1])
    assert lengths == (1, 1, 1) and unknown == (False, True, False)
    state = kenlm.State()
    model.BeginSentenceWrite(state)
    assert model.BaseScore(state, "b", kenlm.State()) == pytest.approx(-0.8)


WORDS = [
    "a",
    "b",
    "c",
    "d",
    "<pad>",
    "<eps>",
    "#0",
    "e\xa0e",
    "\u2028",
    "\u200bf",
    "<UNK>",
    "<unk>",
    "<s>",
    "</s>",
]
PROBABILITIES = [
    "-99",
    "-100",
    "-120.5",
    "-98.999",
    "0",
    "-0.0",
    "-1e-3",
    "-2.5E0",
    "-.5",
    "-3.",
    "-99.0",
    "-1e-45",
]
BACKOFFS = [*PROBABILITIES, "0", "0.3", "+0.25"]


def make_random_file(generator: random.Random) -> str:
    """Return an ARPA file with odd numbers: the context of each n-gram is listed, its ending often
    is not.
    """
    order = generator.randint(2, 5)
    listed = [w for w in WORDS if w in ("<s>", "</s>") or generator.random() < 0.8]
    if "<unk>" in listed and "<UNK>" in listed:
        listed.remove("<UNK>")
    sections: list[list[str]] = []
    ngrams = [(word,) for word in listed]
    for k in range(1, order + 1):
        if k > 1:
            # as many endings as are listed: KenLM refuses a file with many more blanks than n-grams
            candidates = [(*context, word) for context in ngrams for word in listed]
            ngrams = generator.sample(
                candidates, min(len(candidates), generator.choice([0, 8, 40, 120]))
            )
        lines = []
        for ngram in ngrams:
            spelled = (
                generator.choice(PROBABILITIES)
                if generator.random() < 0.3
                else f"{-3 * generator.random():.7g}"
            )
            line = f"{spelled}\t{' '.join(ngram)}"
            if k < order and generator.random() < 0.7:
                is_odd = generator.random() < 0.3
                line += "\t" + (
                    generator.choice(BACKOFFS) if is_odd else f"{-generator.random():.7g}"
                )
            lines.append(line)
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


def test_words_paths_and_sentences_may_be_bytes(tmp_path):
    path = write_file(tmp_path, WHOLE.replace("c", "bé"))
    model = kenlm.Model(path)
    sentence = "a bé\u00a0 zebra"
    for other in (kenlm.Model(path.encode()), kenlm.LanguageModel(Path(path), kenlm.Config())):
        assert other.score(sentence.encode()) == model.score(sentence)
        assert (other.path, other.order) == (path.encode(), 3)
    assert repr(model) == "<Model from b'model.arpa'>"
    assert model.perplexity(sentence.encode()) == model.perplexity(sentence)
    assert "bé".encode() in model and b"b\xe9" not in model
    assert model.score(b"a b\xe9 bad") == model.score("a new bad")


def test_states_are_values_and_one_may_be_in_and_out(tmp_path):
    model = kenlm.Model(write_file(tmp_path, WHOLE))
    state = kenlm.State()
    model.BeginSentenceWrite(state)
    begin = copy.copy(state)
    first = model.BaseScore(state, "a", state)
    full = model.BaseFullScore(state, "b", state)
    assert first + full.log_prob == pytest.approx(model.score("a b", eos=False))
    assert (full.ngram_length, full.oov) == (3, False)
    assert begin == pickle.loads(pickle.dumps(begin)) and len({begin, copy.deepcopy(begin)}) == 1
    assert begin != state and (begin < state) != (begin > state)


@pytest.mark.parametrize("boundary", ["sentence", "stream"])
def test_perplexity_of_a_model_directory_is_that_of_evaluate(build_ngram_model, tmp_path, boundary):
    language_model = build_ngram_model(boundary)
    language_model.save(tmp_path / "model")
    model = kenlm.Model(tmp_path / "model")
    line = "the cat sat on the mat"
    expected = language_model.evaluate([line])["perplexity"]
    assert model.perplexity(line) == pytest.approx(expected)
    if boundary == "stream":
        # no word, and no end of a sentence
        assert model.perplexity("") == 1.0
