"""Many surface forms to one word: alike in Python, in files and in the graph, and the same when it is done again."""

import collections
import itertools
import json
import sys
import unicodedata

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import keras_nplm.data.corpora.pieces as pieces
import keras_nplm.data.tokenizers as normalisation
import keras_nplm.data.tokenizers as tokenization
from keras_nplm import (
    InputError,
    LanguageModel,
    Vocabulary,
    encode_corpus,
    open_corpus,
)
from keras_nplm.cli.main import main
from keras_nplm.data.encoding import count_vocabulary, encode_sentences
from keras_nplm.data.tokenizers import (
    CHARACTERS,
    NUMBER,
    STEPS,
    TOKENIZERS,
    Normalizer,
    add_steps,
    build_form_table,
    get_separator,
    get_tokenizer,
    is_number,
    load_english_lemmas,
    load_forms,
    lower,
)
from keras_nplm.data.vocabulary import EOS_ID, UNK_ID
from keras_nplm.io.files import read_json
from keras_nplm.serving.text import TextGraph
from keras_nplm.training.configuration import train_command

NAMES = [
    add_steps(base, steps)
    for base in TOKENIZERS
    for number in range(len(STEPS) + 1)
    for steps in itertools.combinations(STEPS, number)
    if base != CHARACTERS or not {*steps} - {"lower"}
]
DICTIONARY = {
    "cats": "cat", "sat": "sit", "sits": "sit", "went": "go", "going": "go", "goings": "going", "Polish": "Polish",
    "polish": "pole", "a": "b", "b": "c", "c": "b", "IIs": "II", "first": "1", "'d": "had", "ice-cream": "ice cream",
    "<s>": "s", "mats": "mat", "été": "être",
}  # fmt: skip
LINES = ["The Cat SAT on 12 mats.", "cats sit; dogs, too: 3rd 1,000", "Goings on Été İ", "", "polish Polish <unk> c A"]
LINES *= 9
TEXT = st.text() | st.text("Ab1 ÉéǅİΣς½Ⅳ٣_-'$.,²²\t\x85\u2028<>")


@pytest.fixture
def small_dictionary(monkeypatch):
    """The lemmatiser knows a few words."""
    monkeypatch.setattr(tokenization, "load_english_lemmas", lambda: DICTIONARY)
    load_forms.cache_clear()
    yield
    load_forms.cache_clear()


# One token


def test_lower_case_is_that_of_unicodes_table_of_single_characters():
    for code in range(sys.maxunicode + 1):
        character = chr(code)
        lowered = lower(character)
        if lowered == character == character.lower():
            continue
        assert len(lowered) == 1 and lower(lowered) == lowered
        if character != "İ":  # whose single character the table has, and Python's str does not
            assert lowered == character.lower()
        for test in (str.isalnum, str.isalpha, str.isnumeric, str.isspace):  # so tokens and numbers stay what they are
            assert test(lowered) == test(character)
    assert lower("İ") == "i" and unicodedata.name("İ").endswith("I WITH DOT ABOVE")
    assert lower("ΌΣΟΣ") == "όσοσ" != "ΌΣΟΣ".lower()


@given(TEXT)
def test_a_number_has_a_numeral_and_no_letter(token):
    kinds = [unicodedata.category(character)[0] for character in token]
    numerals = [unicodedata.numeric(character, None) is not None for character in token]
    assert is_number(token) == (any(numerals) and "L" not in kinds)


def test_tokens_that_are_remembered_have_a_bound(monkeypatch):
    monkeypatch.setattr(normalisation, "_CACHED", 3)
    words = Normalizer(["lower"])
    assert [words[token] for token in "ABCDEFGA"] == list("abcdefga")
    assert len(words) <= 3


# Names


def test_a_tokenizer_is_told_by_its_name():
    assert add_steps("whitespace", STEPS[::-1]) == "whitespace+lower+numbers+lemmas"
    assert get_tokenizer("words") is tokenization.split_words  # where nothing is to be done, nothing is done
    for name in ("words+", "words+numbers+lower", "words+lower+lower", "words+stems", "+lower", "lower"):
        with pytest.raises(InputError, match="must be one of words, whitespace, characters. Received: .*in this order"):
            get_tokenizer(name)
    with pytest.raises(InputError, match="`normalise` must be some of lower, numbers, lemmas. Received: 'stems'"):
        open_corpus(normalise=["stems"])


@pytest.mark.parametrize("name", NAMES)
@given(text=TEXT)
@settings(max_examples=30, deadline=None)
def test_normalising_twice_is_normalising_once_and_tokens_survive_joining(name, text):
    tokenize = get_tokenizer(name, build_form_table(DICTIONARY, get_tokenizer(name.removesuffix("+lemmas"))))
    tokens = tokenize(text)
    assert tokenize(get_separator(name).join(tokens)) == tokens
    assert len(tokens) == len(TOKENIZERS[name.partition("+")[0]](text))


# Lemmas


@given(
    st.dictionaries(st.sampled_from(["ab", "bc", "cd", "de", "Ab"]), st.sampled_from(["ab", "bc", "cd", "de", "Ab"]))
)
def test_a_table_of_forms_leads_along_the_dictionary_to_words_that_are_no_forms(dictionary):
    table = build_form_table(dictionary, str.split)
    assert not set(table) & set(table.values())
    for form in dictionary:
        chain = [form]
        while (lemma := dictionary.get(chain[-1], chain[-1])) not in chain:
            chain.append(lemma)
        if "Ab" not in chain:  # which might go on as `ab` does, were it no form itself
            assert table.get(form, form) == min(chain[chain.index(lemma) :])


def test_a_table_of_forms_has_what_a_text_can_have():
    table = build_form_table(DICTIONARY, get_tokenizer("words"))
    assert table["cats"] == "cat" and table["Cats"] == "Cat" and table["goings"] == "go" and table["Été"] == "Être"
    assert "Polish" not in table and table["polish"] == "pole"
    assert table["a"] == table["c"] == "b" and "b" not in table  # a circle
    assert not {"'d", "ice-cream"} & set(table)  # not one token, or the lemma is not
    table = build_form_table(DICTIONARY, get_tokenizer("words+lower+numbers"))
    assert table["polish"] == "pole" and table["iis"] == "ii" and "Cats" not in table and table["first"] == NUMBER


def test_the_dictionary_of_english():
    pytest.importorskip("simplemma")
    tokens = get_tokenizer("words+lower+lemmas")
    assert tokens("The women saw mice; they were running") == "the woman see mouse ; they be run".split()
    forms = load_forms("words+lower+lemmas")
    assert len(forms) > 50_000 and not set(forms) & set(forms.values())


def test_lemmas_without_a_lemmatiser_are_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "simplemma.strategies.dictionaries", None)
    with pytest.raises(InputError, match=r"pip install 'keras-nplm\[lemmas\]'"):
        load_english_lemmas()


# A corpus


@pytest.mark.parametrize("steps", [[], ["lower", "numbers"], STEPS])
def test_a_vocabulary_is_one_of_words_however_they_are_counted(tmp_path, monkeypatch, small_dictionary, steps):
    (tmp_path / "text.txt").write_text("\n".join(LINES), encoding="utf-8")
    monkeypatch.setattr(pieces, "PIECE_BYTES", 64)
    monkeypatch.setattr(pieces, "PARALLEL_BYTES", 0 if steps == ["lower", "numbers"] else 1 << 26)
    monkeypatch.setattr(pieces, "count_processes", lambda: 2)  # which know no small dictionary
    corpus = open_corpus(train=[str(tmp_path / "text.txt")], normalise=steps)
    vocabulary = count_vocabulary(corpus, min_count=2)

    forms = build_form_table(DICTIONARY, get_tokenizer(add_steps("words", steps[:2])))
    lines = [line for line in LINES if line][: round(len(LINES) * 4 / 5 * 0.8)]
    counts = collections.Counter()
    for token in itertools.chain(*map(TOKENIZERS["words"], lines)):
        token = lower(token) if "lower" in steps else token
        token = NUMBER if "numbers" in steps and is_number(token) else token
        counts[forms.get(token, token) if "lemmas" in steps else token] += 1
    expected = sorted((word for word in counts if counts[word] > 1 and word != "<unk>"), key=lambda w: (-counts[w], w))
    assert vocabulary.words[4:] == expected == Vocabulary.build(corpus.sentences("train"), min_count=2).words[4:]
    kept = {form: word for form, word in forms.items() if word in expected}
    assert vocabulary.forms == (kept if "lemmas" in steps else None) and len(kept) > 3

    encoded = encode_corpus(corpus, vocabulary, tmp_path / "corpus")
    assert encoded.tokenizer == corpus.tokenizer
    for split in ("train", "validation", "test"):
        np.testing.assert_array_equal(encoded.ids(split), encode_sentences(corpus.sentences(split), vocabulary))


def test_texts_whose_tokens_are_apart_are_normalised_too():
    plain = next(open_corpus("python_reference").sentences("test"))
    corpus = open_corpus("python_reference", tokenizer="whitespace", normalise=["lower", "numbers"])
    assert corpus.tokenizer == "words+lower+numbers"
    assert next(corpus.sentences("test")) == get_tokenizer(corpus.tokenizer)(" ".join(plain)) != plain


# A model


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Models of one text: plain, in lower case, and of lemmas, estimated by the command."""
    directory = tmp_path_factory.mktemp("normalised")
    (directory / "text.txt").write_text("\n".join(LINES), encoding="utf-8")
    common = ["ngram", "--train", str(directory / "text.txt"), "--order", "2", "--output"]
    with pytest.MonkeyPatch.context() as context:
        context.setattr(tokenization, "load_english_lemmas", lambda: DICTIONARY)
        load_forms.cache_clear()
        for name, steps in {"plain": [], "lower": STEPS[:1], "lemmas": STEPS, "cased": STEPS[2:]}.items():
            assert main([*common, str(directory / name), *(["--normalise", *steps] if steps else [])]) == 0
    load_forms.cache_clear()
    return directory


@pytest.fixture
def no_lemmatiser(monkeypatch):
    def refuse():
        raise AssertionError("a finished model asks for the lemmatiser")

    monkeypatch.setattr(tokenization, "load_english_lemmas", refuse)


@pytest.fixture
def lemmas(made, no_lemmatiser) -> LanguageModel:
    return LanguageModel.load(made / "lemmas")


def test_a_model_of_lemmas_needs_no_lemmatiser(made, lemmas, capsys):
    assert read_json(made / "lemmas" / "config.json")["tokenizer"] == "words+lower+numbers+lemmas"
    assert lemmas.tokenize("Cats SAT on 77 mats") == ["cat", "sit", "on", NUMBER, "mat"]
    assert [*lemmas.score(["the cats sat on 5"])] == [*lemmas.score(["The CAT sits on _number_"])]
    assert NUMBER in dict(lemmas.next_words("Cats on"))
    text = lemmas.generate(num_words=40)
    assert lemmas.tokenize(text) == text.split()
    lines = [line for line in LINES if line]
    held_out = [word for line in lines[29:32] for word in lemmas.tokenize(line)]
    ids = lemmas.corpus.ids("validation")
    assert lemmas.vocabulary.decode(ids[ids != 3]) == held_out
    assert main(["complete", str(made / "lemmas"), "the Cats", "the cat", "--json"]) == 0
    assert len({str(answer) for answer in json.loads(capsys.readouterr().out).values()}) == 1


def test_forms_go_where_the_vocabulary_goes(made, lemmas, tmp_path):
    lemmas.save(tmp_path / "saved")
    assert (tmp_path / "saved" / "forms.tsv").read_bytes() == (made / "lemmas" / "forms.tsv").read_bytes()
    both = [str(tmp_path / "saved"), str(made / "lemmas")]
    assert main(["mix", *both, "--weights", "0.5", "0.5", "--output", str(tmp_path / "mixed")]) == 0
    assert LanguageModel.load(tmp_path / "mixed").vocabulary == lemmas.vocabulary
    assert main(["export", str(made / "lemmas"), str(tmp_path / "two.arpa")]) == 0
    again = ["ngram", "--arpa", str(tmp_path / "two.arpa"), "--vocabulary", str(made / "lemmas" / "vocabulary.txt")]
    again += ["--tokenizer", "words", "--output", str(tmp_path / "again")]
    assert main([*again, "--normalise", "lower"]) == 2  # forms without lemmas
    assert main([*again, "--normalise", *STEPS]) == 0
    assert LanguageModel.load(tmp_path / "again").vocabulary.forms == lemmas.vocabulary.forms
    assert lemmas.vocabulary.with_words(["dromedary"]).forms == lemmas.vocabulary.forms
    lemmas.vocabulary.save(tmp_path / "vocabulary.txt")
    Vocabulary(["the"]).save(tmp_path / "vocabulary.txt")
    assert Vocabulary.load(tmp_path / "vocabulary.txt").forms is None


def test_a_vocabulary_of_lemmas_that_was_made_without_forms_is_given_them(lemmas, monkeypatch):
    monkeypatch.setattr(tokenization, "load_english_lemmas", lambda: DICTIONARY)
    words = Vocabulary(lemmas.vocabulary.words[4:])
    assert LanguageModel(lemmas.model, words, lemmas.tokenizer_name, "sentence").vocabulary == lemmas.vocabulary
    load_forms.cache_clear()


def test_models_of_another_normalisation_are_not_mixed(made, tmp_path, capsys):
    lemmas = LanguageModel.load(made / "lemmas")
    words = Vocabulary(lemmas.vocabulary.words[4:], {"kittens": "cat"})
    LanguageModel(lemmas.model, words, lemmas.tokenizer_name, "sentence").save(tmp_path / "forms")
    for other in (made / "plain", made / "lower", made / "cased", tmp_path / "forms"):
        directories = [str(made / "lemmas"), str(other)]
        assert main(["mix", *directories, "--weights", "0.5", "0.5", "--output", str(tmp_path / "mixed")]) == 2
        assert "must have the same vocabulary" in capsys.readouterr().err
    assert main(["export", str(made / "plain"), str(tmp_path / "plain.arpa")]) == 0
    for name, steps in {"a": [], "b": ["--normalise", "numbers"]}.items():
        assert main(["ngram", "--arpa", str(tmp_path / "plain.arpa"), "--output", str(tmp_path / name), *steps]) == 0
    directories = [str(tmp_path / "a"), str(tmp_path / "b")]
    assert main(["mix", *directories, "--weights", "0.5", "0.5", "--output", str(tmp_path / "c")]) == 2
    assert "must have the same tokenizer" in capsys.readouterr().err


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: b"",
        lambda text: text[:-1],
        lambda text: text[: text[:-1].rindex(b"\n") + 1],
        lambda text: text + b"x\ty\n",
        lambda text: text.replace(b"\tcat\n", b"\tsit\n"),
        lambda text: text.replace(b"cats", b"\xff"),
        lambda text: text[text.index(b"\n") + 1 :],
        None,
    ],
)
def test_damaged_forms_are_refused(made, tmp_path, lemmas, damage):
    lemmas.save(tmp_path / "model")
    forms = tmp_path / "model" / "forms.tsv"
    whole = forms.read_bytes()
    forms.unlink() if damage is None else forms.write_bytes(damage(whole))
    assert damage is None or forms.read_bytes() != whole
    with pytest.raises(InputError, match="forms.tsv"):
        LanguageModel.load(tmp_path / "model")


@pytest.mark.parametrize(
    "lines, message",
    [
        ("cats\tcat\nmat\tcat\n", "one token outside the vocabulary. Received: 'mat'"),
        ("cats\tdog\n", "must be in the vocabulary. Received: 'dog'"),
        ("cats\t<unk>\n", "must be in the vocabulary. Received: '<unk>'"),
        ("<s>\tcat\n", "Received: '<s>'"),
        ("\tcat\n", "Received: ''"),
        ("two cats\tcat\n", "Received: 'two cats'"),
        ("cats\n", "does not match vocabulary.txt"),
        ("cats\tcat\tcat\n", "does not match vocabulary.txt"),
        ("cats\tcat\ncats\tmat\n", "does not match vocabulary.txt"),
        ("cats\tcat", "does not match vocabulary.txt"),
    ],
)
def test_forms_that_are_none_are_refused_though_their_checksum_be_right(tmp_path, monkeypatch, lines, message):
    Vocabulary(["cat", "mat"], {"cats": "cat"}).save(tmp_path / "vocabulary.txt")
    head = "form\tword\tcrc32 00000000"
    monkeypatch.setattr("keras_nplm.data.vocabulary._head", lambda lines, words: head)
    (tmp_path / "forms.tsv").write_text(f"{head}\n{lines}")
    with pytest.raises(InputError, match=message):
        Vocabulary.load(tmp_path / "vocabulary.txt")


def test_the_command_that_trains_a_model_names_its_normalisation():
    config = {"kind": "nplm", "corpus": "tfds:lm1b", "tokenizer": "whitespace+lower+lemmas"}
    expected = "keras-nplm train --corpus tfds:lm1b --tokenizer whitespace --normalise lower lemmas"
    assert train_command(config).startswith(expected)


# The graph


@pytest.fixture(scope="module")
def graphs():
    """Text -> ids, by the name of the tokenizer, and the vocabulary."""
    words = ["the", "cat", "Cat", "sit", "go", NUMBER, "être", "b", "İ", "i", "."]
    made = {}
    for name in NAMES:
        forms = build_form_table(DICTIONARY, get_tokenizer(name.removesuffix("+lemmas"))) if "lemmas" in name else None
        vocabulary = Vocabulary(words)
        vocabulary = vocabulary if forms is None else vocabulary.with_forms(forms)
        graph = TextGraph(vocabulary, name, "sentence")
        made[name] = vocabulary, tf.function(graph.split, [tf.TensorSpec([None], tf.string)]), graph
    return made


def test_every_character_is_normalised_as_in_python(graphs):
    characters = [chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000]
    _assert_split_alike(graphs, "whitespace+lower+numbers", "".join(f"{character}1 " for character in characters))
    changed = [character for character in characters if lower(character) != character or is_number(character)]
    _assert_split_alike(graphs, "words+lower+numbers", "".join(f"{c}1 A{c}{c}'{c}-{c} {c} -{c} " for c in changed))


def _assert_split_alike(graphs, name, text):
    _, split, _ = graphs[name]
    assert [token.decode() for token in split(tf.constant([text.encode()]))[0].numpy()] == get_tokenizer(name)(text)


_SHOWN = [*filter(str.isalpha, DICTIONARY), "Cats", "CATS", "Goings", "12", "3rd", "İ", "."]
FORMS = st.lists(st.sampled_from(_SHOWN)).map(" ".join)


@given(texts=st.lists(TEXT | FORMS, max_size=3), name=st.sampled_from(NAMES))
@settings(max_examples=100, deadline=None)
def test_text_is_normalised_as_in_python(graphs, texts, name):
    vocabulary, split, graph = graphs[name]
    tokenize = get_tokenizer(name, vocabulary.forms)
    tokens = split(tf.constant([text.encode() for text in texts], tf.string))
    ids = tf.ragged.map_flat_values(graph.look_up, tokens).to_list()
    expected = [vocabulary.encode(tokenize(text)) for text in texts]
    assert ids == [np.where(i <= EOS_ID, UNK_ID, i).tolist() for i in expected]  # Python refuses reserved tokens


def test_a_served_model_answers_alike(made, lemmas, tmp_path, capsys):
    assert main(["export", str(made / "lemmas"), str(tmp_path / "served")]) == 0
    served = tf.saved_model.load(tmp_path / "served" / "1")
    sentences = [
        "The CAT sat on 3 mats, going İ",
        "",
        "Goings on été 1,000 polish dromedaries",
        "the cat sit on _number_",
    ]
    found = served.signatures["score"](sentences=tf.constant(sentences))
    expected = [*lemmas.score(sentences)]
    assert found["unk_tokens"].numpy().tolist() == [score.unk_tokens for score in expected]
    np.testing.assert_allclose(found["log_prob"], [score.log_prob for score in expected], rtol=1e-5)
    words = served.signatures["predict_next"](contexts=tf.constant(["Cats SAT on"]))["words"][0, 0].numpy().decode()
    assert words == lemmas.next_words("cat sit on")[0][0] == NUMBER
    kept = Vocabulary.load(tmp_path / "served" / "1" / "assets.extra" / "vocabulary.txt")
    assert kept == lemmas.vocabulary
    card = (tmp_path / "served" / "README.md").read_text(encoding="utf-8")
    assert "upper case is read as lower, tokens with digits and no letter are read as `_number_`, the forms" in card
