"""Programs for `import kenlm` find all its names, accept its arguments and catch its errors."""

import copy
import math
import pickle

import pytest

from keras_nplm import InputError, KenlmModel
from keras_nplm.language_model import kenlm

ARPA = """\\data\\
ngram 1=5
ngram 2=2

\\1-grams:
-1\t<unk>
-99\t<s>\t-0.3
-0.7\t</s>
-0.6\ta\t-0.2
-0.5\tbé

\\2-grams:
-0.2\t<s> a
-0.4\ta bé

\\end\\
"""
MODULE = "ARPALoadComplain Config FullScoreReturn LanguageModel LoadMethod Model State os".split()
MODEL = (
    "BaseFullScore BaseScore BeginSentenceWrite NullContextWrite full_scores order path perplexity "
    "score"
).split()
CONSTANTS = {
    "LoadMethod": {
        "LAZY": 0,
        "POPULATE_OR_LAZY": 1,
        "POPULATE_OR_READ": 2,
        "READ": 3,
        "PARALLEL_READ": 4,
    },
    "ARPALoadComplain": {"ALL": 0, "EXPENSIVE": 1, "NONE": 2},
}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("arpa") / "small.arpa"
    path.write_text(ARPA, encoding="utf-8")
    return path


def test_all_names_of_kenlm_are_there():
    assert [name for name in MODULE if not hasattr(kenlm, name)] == []
    assert [name for name in MODEL if not hasattr(kenlm.Model, name)] == []
    for name, values in CONSTANTS.items():
        assert {value: getattr(getattr(kenlm, name), value) for value in values} == values
    config = kenlm.Config()
    assert (config.load_method, config.show_progress, config.arpa_complain) == (2, True, 0)
    assert kenlm.Model is KenlmModel and issubclass(kenlm.LanguageModel, kenlm.Model)


@pytest.mark.packages
def test_the_lists_are_those_of_the_real_module():
    real = pytest.importorskip("kenlm", reason="kenlm is not installed")
    assert sorted(name for name in dir(real) if not name.startswith("__")) == MODULE
    assert sorted(name for name in dir(real.Model) if not name.startswith("__")) == MODEL
    for name in MODULE[:-1]:
        ours = getattr(kenlm, name)
        theirs = getattr(real, name)
        own = {"__pyx_vtable__", "__setstate__"}  # of Cython
        assert [part for part in dir(theirs) if part not in own and not hasattr(ours, part)] == []
    for name, values in CONSTANTS.items():
        assert {value: getattr(getattr(real, name), value) for value in values} == values


def test_paths_words_and_sentences_may_be_bytes(path):
    model = kenlm.Model(path)
    for other in (
        kenlm.Model(str(path)),
        kenlm.Model(bytes(path)),
        kenlm.LanguageModel(path),
        kenlm.Model(path=path),
    ):
        assert other.score("a bé") == model.score("a bé")
        assert (other.path, other.order, repr(other)) == (
            bytes(path),
            2,
            "<Model from b'small.arpa'>",
        )
    sentence = "a bé zebra"
    assert model.score(sentence.encode()) == model.score(sentence)
    assert model.perplexity(sentence.encode()) == model.perplexity(sentence)
    assert [*model.full_scores(sentence.encode(), bos=False)] == [
        *model.full_scores(sentence, bos=False)
    ]
    assert "bé".encode() in model and b"b\xe9" not in model
    assert model.score(b"a b\xe9 bad") == model.score("a new bad")
    for wrong in (5, None, ["a"], bytearray(b"a")):
        with pytest.raises(TypeError, match="Cannot convert <class"):
            model.score(wrong)
        with pytest.raises(TypeError, match="Cannot convert <class"):
            wrong in model  # noqa: B015


def test_options_of_loading_are_accepted(path):
    config = kenlm.Config()
    config.load_method = kenlm.LoadMethod.READ
    config.show_progress = 0
    config.arpa_complain = kenlm.ARPALoadComplain.NONE
    assert (config.load_method, config.show_progress, config.arpa_complain) == (3, False, 2)
    for model in (
        kenlm.Model(path, config),
        kenlm.Model(path, config=config),
        kenlm.Model(path, None),
    ):
        assert model.order == 2
    for name, value in (("load_method", "lazy"), ("arpa_complain", None), ("load_method", 1.5)):
        with pytest.raises(TypeError):
            setattr(config, name, value)
    with pytest.raises(AttributeError, match="no attribute 'lazy'"):
        config.lazy = True
    with pytest.raises(TypeError, match=r"`config` must be a kenlm\.Config\. Received: bool"):
        kenlm.Model(path, True)


def test_a_model_that_cannot_be_read_is_an_os_error(tmp_path):
    (tmp_path / "bad.arpa").write_text("hello")
    (tmp_path / "model.bin").write_bytes(b"mmap lm http://kheafield.com/code format version 5\n\0")
    (tmp_path / "empty").mkdir()
    for name, message in (
        ("absent.arpa", "does not exist"),
        ("bad.arpa", r"bad\.arpa"),
        ("model.bin", "must be an ARPA file. Received: a binary file of KenLM"),
        ("empty", "empty"),
    ):
        for error in (IOError, InputError):
            with pytest.raises(error, match=message):
                kenlm.Model(tmp_path / name)
    with pytest.raises(TypeError):
        kenlm.Model(5)


@pytest.mark.packages
def test_states_are_compared_copied_and_hashed_as_those_of_kenlm(path):
    real = pytest.importorskip("kenlm", reason="kenlm is not installed")
    modules = (kenlm, real)
    models = kenlm.Model(path), real.Model(str(path))
    found = []
    for module, model in zip(modules, models, strict=True):
        fresh = module.State()
        begin = module.State()
        null = module.State()
        model.BeginSentenceWrite(begin)
        model.NullContextWrite(null)
        states = [fresh, begin, null]
        for before in (begin, null, fresh):
            for words in ("a", "zebra", "bé", "a a", "zebra a", "</s>", "a bé", "<s>"):
                state = copy.copy(before)
                for word in words.split():
                    after = module.State()
                    model.BaseScore(state, word, after)
                    state = after
                states.append(state)
        equal = [[a == b for a in states] for b in states]
        assert not any((a != b) == (a == b) for a in states for b in states)
        assert all(hash(a) == hash(b) for a in states for b in states if a == b)
        assert all(
            (a < b) + (a == b) + (a > b) == 1 and (a <= b) == (not a > b)
            for a in states
            for b in states
        )
        found.append(equal)
    assert found[0] == found[1]
    assert (
        pickle.loads(pickle.dumps(begin_of(models[0])))
        == copy.deepcopy(begin_of(models[0]))
        == begin_of(models[0])
    )
    with pytest.raises(AttributeError):
        kenlm.State().words = 1


def begin_of(model):
    state = kenlm.State()
    model.BeginSentenceWrite(state)
    return state


def test_a_new_state_is_no_context_and_one_state_may_be_in_and_out(path):
    model = kenlm.Model(path)
    null = kenlm.State()
    out = kenlm.State()
    model.NullContextWrite(null)
    assert (
        model.BaseScore(kenlm.State(), "a", out)
        == model.BaseScore(null, "a", out)
        == pytest.approx(-0.6)
    )
    state = begin_of(model)
    assert model.BaseScore(state, "a", state) == pytest.approx(-0.2)
    full = model.BaseFullScore(state, "bé", state)
    assert (repr(full), full.ngram_length, full.oov) == (
        f"FullScoreReturn({full.log_prob}, 2, False)",
        2,
        False,
    )
    assert full.log_prob == pytest.approx(-0.4)
    # an empty word is unknown
    assert math.isclose(model.BaseScore(state, "", state), -1, abs_tol=1e-6)


def test_words_are_split_at_ascii_white_space(path):
    model = kenlm.Model(path)
    assert len([*model.full_scores(" a\tbé\na\x0ba\x0ca\r\na\u00a0a a\u2003a ", eos=False)]) == 7


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
