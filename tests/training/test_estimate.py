"""N-gram models, ARPA import and mixtures as model directories that every command takes."""

import itertools
import shutil
from pathlib import Path

import numpy as np
import pytest

from keras_nplm import NPLM, InputError, LanguageModel, TextOptions, estimate, mix, open_corpus
from keras_nplm.io.files import read_json
from keras_nplm.training.methods import Method
from tests.kills import kill_at_rename

CLOSED = (
    "\\data\\\nngram 1=4\nngram 2=1\n\n\\1-grams:\n-99 <s>\n{} </s>\n-.6 the\n-.6 cat\n\n"
    "\\2-grams:\n-.1 the cat\n\n\\end\\\n"
)


FLAGS = {"deleted-interpolation": "--set paper_bins=yes", "class-based": "--num-classes 5"}


@pytest.mark.parametrize("method", Method.kinds)
def test_commands_take_an_estimated_model(here, run, ask, short_text, method):
    flags = f"{FLAGS.get(method, '')} --train {short_text} --order 3 --min-count 2"
    command = f"ngram --method {method} {flags} --output model"
    metrics = ask(command)
    assert 5 < metrics["test"]["perplexity"] < 15 and len(metrics["ngrams"]) == 3
    assert ask(command) == metrics  # finished: read, not estimated again
    assert ask("evaluate model") == {**metrics["test"], "text": "test split"}
    completed = ask("complete model 'w2 w3' --top-k 3")["w2 w3"]
    assert "w1" in completed and len(completed) == 3
    error = run(f"{command} --order 2", status=2).err
    assert "with other options: order: 3 there, 2 now. Fix: " in error


def test_weights_are_given_or_follow_the_frequency(here, ask, short_corpus):
    for order in (2, 3):
        estimate("kneser-ney", short_corpus, str(order), order=order)
    by_frequency = ask("mix 2 3 --by-frequency --output bins")
    assert len(by_frequency["weights"]) > 3
    assert ask("evaluate bins") == {**by_frequency["test"], "text": "test split"}
    assert mix(["bins", "3"], "fixed", weights=[0.5, 0.5])["weights"] == [[0.5, 0.5]]
    first, second, both = (
        np.exp(LanguageModel.load(name).model.next_log_probs([[2, 4]]))
        for name in ("bins", "3", "fixed")
    )
    np.testing.assert_allclose(both, (first + second) / 2, atol=1e-7)


def test_mixture_with_caches_is_tuned_saved_and_evaluated(here, ask):
    words = np.array([*"abcdefghijklmnopqrst"])
    rng = np.random.default_rng(0)
    topics = [rng.choice(words, 4, replace=False) for _ in range(60)]
    lines = "".join(" ".join(rng.choice(topic, 40)) + "\n" for topic in topics)
    Path("text.txt").write_text(lines, encoding="utf-8")
    stream = TextOptions(boundary="stream", min_count=1)
    plain = estimate("kneser-ney", open_corpus(train=["text.txt"]), "kn", order=2, text=stream)
    ngrams = LanguageModel.load("kn")
    network = NPLM(len(ngrams.vocabulary), order=2, boundary="stream")
    LanguageModel(network, ngrams.vocabulary, ngrams.tokenizer.name).save("network")
    caches = "--unigram-cache --ngram-cache --continuous-cache --cache-length 100 --uniform"
    metrics = ask(f"mix kn network {caches} --output mixture")
    parts = ["back-off", "nplm", "unigram-cache", "ngram-cache", "continuous-cache", "uniform"]
    assert metrics["components"] == parts
    assert metrics["decay"] == 50 and metrics["ngram_decay"] >= 50 and metrics["flatness"] > 0
    assert metrics["test"]["perplexity"] < 0.7 * plain["test"]["perplexity"]
    assert mix(["kn"], "given", unigram_cache=77)["decay"] == 77
    for part in ("kn", "network"):
        shutil.rmtree(part)  # the mixture holds copies
    found = ask("evaluate mixture")
    assert found.pop("text") == "test split"
    # sums of TensorFlow's threads may differ in the last digit
    assert found == pytest.approx(metrics["test"], rel=1e-12)


LETTERS = ["".join(line) for line in np.random.default_rng(0).choice([*"abcdef"], (200, 20))]


def test_refused_commands_write_nothing(here, run, short_text, messages):
    Path("text.txt").symlink_to(short_text)
    for name, flags in {
        "kn": "--min-count 2",
        "stream": "--min-count 2 --boundary stream",
        "words": "--min-count 99",
        "all": "--all",
    }.items():
        run(f"ngram --train text.txt --order 2 {flags} --output {name}")
    run("export kn kn.arpa")
    Path("closed.arpa").write_text(CLOSED.format("-99"), encoding="utf-8")
    for command in (
        "mix kn stream --output m",
        "mix kn words --output m",
        "mix kn --output m",
        "mix kn kn --weights 0.5 0.6 --output m",
        "mix kn kn --weights 0.5 0.5 --by-frequency --output m",
        "mix kn none --output m",
        "mix kn kn --output words",
        "mix stream kn.arpa --output m",
        "mix all --uniform --output m",
        "evaluate all",
        "ngram --train text.txt --all --method class-based --output m",
        "ngram --train text.txt --all --method deleted-interpolation --output m",
        "ngram --train text.txt --all --shuffle --output m",
        "ngram --arpa closed.arpa --output m",
    ):
        messages.add(run(command, status=2).err.splitlines()[-1])
        assert not Path("m").exists(), command


TEXTS = {
    "letters.txt": LETTERS,
    # lines that all texts have are no held-out text that is trained on
    "held-out.txt": [*LETTERS[:20], "aba", "bab"],
    "one.txt": [*LETTERS[20:], "aba", "bab"],
    "two.txt": [*(line[::-1] for line in LETTERS[20:]), "aba", "bab"],
    "closed.arpa": CLOSED.format("-.3").splitlines(),
    "new.txt": ["the cat sat"],
}
_LETTERS = "--token character --order 2 --set vocabulary_scope=corpus"
PRINTED = [
    # all lines, and the same text to validate on
    "ngram --train text.txt --min-count 1 --all --output all",
    "ngram --train text.txt --min-count 1 --all --output all",
    "ngram --train text.txt --min-count 1 --validation text.txt --output same",
    "evaluate all --text text.txt",
    "mix all same --output of-all",
    # words of an ARPA file that a directory has not
    "ngram --train text.txt --min-count 40 --order 3 --output kn",
    "ngram --train text.txt --min-count 1 --order 2 --output more",
    "export more more.arpa",
    "mix more.arpa kn --output mixture",
    "ngram --arpa more.arpa --vocabulary kn/vocabulary.txt --tokenizer words --output imported",
    "mix imported kn --output of-imported",
    "ngram --arpa more.arpa --output alone",
    # the same model twice
    "mix kn kn --weights 0.5 0.5 --output twice",
    # a closed vocabulary
    "ngram --arpa closed.arpa --output closed",
    "score closed new.txt",
    "score closed new.txt --json",
    # training on held-out text is a warning, also of a mixture
    f"ngram --train letters.txt {_LETTERS} --output first",
    f"ngram --train letters.txt {_LETTERS} --fractions .9 .05 .05 --output other",
    "mix first other --weights 0.5 0.5 --output leak",
    "mix first leak --weights 0.5 0.5 --output of-leak",
    "evaluate first leak",
    # words of all splits, also in a mixture
    "ngram --train text.txt --order 2 --min-count 9 --set vocabulary_scope=corpus --output scope",
    "mix scope --uniform --output of-scope",
    "evaluate of-scope kn",
    f"ngram --train one.txt --validation held-out.txt {_LETTERS} --output one",
    f"ngram --train two.txt --validation held-out.txt {_LETTERS} --output two",
    "mix one two --output fair",
]


def test_what_is_printed_of_estimated_models(here, run, short_text, messages):
    Path("text.txt").write_bytes(short_text.read_bytes())
    for name, lines in TEXTS.items():
        Path(name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    for line in PRINTED:
        printed = run(line)
        messages.add(f"{line}\n{printed.out}{printed.err}")
    assert LanguageModel.load("mixture").vocabulary == LanguageModel.load("kn").vocabulary
    rows = [
        np.exp(LanguageModel.load(name).model.next_log_probs([[2, 4]])[0])
        for name in ("mixture", "of-imported")
    ]
    assert rows[0].sum() == pytest.approx(1, abs=1e-5)
    np.testing.assert_allclose(rows[1], rows[0])
    (warning,) = read_json("leak/metrics.json")["warnings"]
    assert read_json("of-leak/metrics.json")["warnings"] == [warning]


def test_word_classes_are_found_however_often_a_run_is_killed_and_reused(
    here, monkeypatch, short_text
):
    """The search ends while words still move: one more sweep would find other classes."""
    monkeypatch.setattr("keras_nplm.models.ngrams.word_classes.CONVERGED", 0.4)
    text = Path(shutil.copy(short_text, "text.txt"))
    options = dict(order=3, num_classes=5)
    found = estimate("class-based", open_corpus(train=[text]), "whole", **options)
    for end in itertools.count(1):  # killed at the first rename, then at the second, ...
        with kill_at_rename(end):
            estimate("class-based", open_corpus(train=[text]), "cut", **options)
            break
    assert end > 5
    path, cut = (Path(name, "word_classes.tsv") for name in ("whole", "cut"))
    assert cut.read_bytes() == path.read_bytes() and not cut.with_suffix(".npz").exists()

    given = dict(order=3, word_classes=path)
    reused = estimate("class-based", open_corpus(train=[text]), "given", **given)
    assert reused["test"] == found["test"]
    for changed, file, more in (("word_classes", path, "\n"), ("corpus", text, "w1\n")):
        file.write_text(file.read_text() + more)
        with pytest.raises(InputError, match=f"{changed}: its files have changed"):
            estimate("class-based", open_corpus(train=[text]), "given", **given)
