"""N-gram models, ARPA import and mixtures as model directories that every command takes."""

import contextlib
import itertools
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from keras_nplm import NPLM, InputError, LanguageModel, TextOptions, estimate, mix, open_corpus
from keras_nplm.io.files import read_json

CLOSED = (
    "\\data\\\nngram 1=4\nngram 2=1\n\n\\1-grams:\n-99 <s>\n{} </s>\n-.6 the\n-.6 cat\n\n"
    "\\2-grams:\n-.1 the cat\n\n\\end\\\n"
)


@pytest.mark.parametrize(
    "method",
    ["kneser-ney", "deleted-interpolation --set paper_bins=yes", "class-based --num-classes 5"],
)
def test_commands_take_an_estimated_model(here, run, ask, short_text, method):
    command = f"ngram --method {method} --train {short_text} --order 3 --min-count 2 --output model"
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
    LanguageModel(network, ngrams.vocabulary, ngrams.tokenizer_name).save("network")
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


def _estimate_letters(directory: str, lines: list[str], **options: object) -> None:
    """Estimate a model of characters, which are those of all splits."""
    Path(f"{directory}.txt").write_text("\n".join(lines), encoding="utf-8")
    corpus = open_corpus(tokenizer="characters", train=[f"{directory}.txt"], **options)
    of_all = TextOptions(vocabulary_scope="corpus", min_count=1)
    estimate("kneser-ney", corpus, directory, order=2, text=of_all)


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


def test_an_arpa_file_is_mixed_with_the_words_of_a_directory(here, run, short_corpus):
    for name, order, min_count in (("kn", 3, 40), ("more", 2, 1)):
        text = TextOptions(min_count=min_count)
        estimate("kneser-ney", short_corpus, name, order=order, text=text)
    run("export more more.arpa")
    captured = run("mix more.arpa kn --output mixture")
    absent = "words of more.arpa are not in the vocabulary."
    assert f"{absent} They count as <unk>" in captured.err
    assert captured.out.index("more.arpa, ") < captured.out.index("kn\n")
    mixed = LanguageModel.load("mixture")
    assert mixed.vocabulary == LanguageModel.load("kn").vocabulary
    (probabilities,) = np.exp(mixed.model.next_log_probs([[2, 4]]))
    assert probabilities.sum() == pytest.approx(1, abs=1e-5)
    notes = run("ngram --arpa more.arpa --vocabulary kn/vocabulary.txt --output imported").err
    assert absent in notes and "spelling model" not in notes
    run("mix imported kn --output again")
    again = LanguageModel.load("again")
    np.testing.assert_allclose(np.exp(again.model.next_log_probs([[2, 4]])[0]), probabilities)
    notes = run("ngram --arpa more.arpa --output alone").err
    assert "The spelling model of unknown words is new, of the words of more.arpa." in notes


def test_all_lines_train_an_ngram_model(here, run, ask, short_text):
    command = f"ngram --train {short_text} --min-count 1"
    metrics = ask(f"{command} --all --output all")
    assert not metrics.keys() & {"validation", "test"}
    assert "no validation or test text" in run(f"{command} --all --output all").out
    same = ask(f"{command} --validation {short_text} --output same")
    assert same["ngrams"] == metrics["ngrams"] and "test" not in same
    evaluated = ask(f"evaluate all --text {short_text}")
    assert evaluated["perplexity"] == pytest.approx(same["validation"]["perplexity"])
    mixed = ask("mix all same --output mixture")  # fitted on the validation text of any part
    assert mixed["validation"]["perplexity"] > 1 and "test" not in mixed


def test_probability_0_is_reported(here, run, ask):
    Path("model.arpa").write_text(CLOSED.format("-.3"), encoding="utf-8")
    run("ngram --arpa model.arpa --output m")
    Path("text").write_text("the cat sat\n", encoding="utf-8")
    assert ask("score m text")["sentences"][0]["log_prob"] is None
    assert run("score m text").out.splitlines()[1].startswith("-inf\t4\t")


def test_mixing_warns_of_training_on_held_out_text(here, run):
    """But not of lines that all texts have."""
    _estimate_letters("first", LETTERS)
    _estimate_letters("other", LETTERS, fractions=(0.9, 0.05, 0.05))
    mixed = run("mix first other --weights 0.5 0.5 --output mixture")
    (warning,) = read_json("mixture/metrics.json")["warnings"]
    assert "other was trained on 100% of the validation sentences of first" in warning
    assert f"Warning: {warning}\n" in mixed.err
    assert mix(["first", "mixture"], "again", weights=[0.5, 0.5])["warnings"] == [warning]
    assert f"Warning: mixture: {warning}\n" in run("evaluate first mixture").err
    common = ["aba", "bab"]
    mirrored = [line[::-1] for line in LETTERS[20:]]  # the same vocabulary
    Path("validation.txt").write_text("\n".join([*LETTERS[:20], *common]), encoding="utf-8")
    for name, part in {"one": LETTERS[20:], "two": mirrored}.items():
        _estimate_letters(name, [*part, *common], validation=["validation.txt"])
    assert "Warning" not in run("mix one two --output fair").err


class _Killed(BaseException):
    """Stands for kill -9: nothing in the package can catch it."""


def test_word_classes_are_found_however_often_a_run_is_killed_and_reused(
    here, monkeypatch, short_text
):
    """The search ends while words still move: one more sweep would find other classes."""
    monkeypatch.setattr("keras_nplm.models.ngrams.word_classes.CONVERGED", 0.4)
    text = Path(shutil.copy(short_text, "text.txt"))
    options = dict(order=3, num_classes=5)
    found = estimate("class-based", open_corpus(train=[text]), "whole", **options)
    rename = os.replace
    for end in itertools.count(1):  # killed at the first rename, then at the second, ...
        numbers = itertools.count(1)

        def kill_or_rename(*paths, end=end, numbers=numbers):
            if next(numbers) == end:
                raise _Killed
            rename(*paths)

        with contextlib.suppress(_Killed), monkeypatch.context() as context:
            context.setattr(os, "replace", kill_or_rename)
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
