"""N-gram models, ARPA import and mixtures as model directories that every command takes."""

import json
import shutil
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from keras_nplm import NPLM, InputError, LanguageModel, TextOptions, estimate, mix, open_corpus
from keras_nplm.cli.main import main
from keras_nplm.io.files import write_arrays
from keras_nplm.models.ngrams import exchange_classes


def _json(capsys, *arguments):
    capsys.readouterr()
    assert main([*map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def _evaluate_test(capsys, directory):
    """Return the figures that `evaluate` prints of the test split."""
    figures = _json(capsys, "evaluate", directory)
    assert figures.pop("text") == "test split"
    return figures


@pytest.mark.parametrize(
    "method",
    ["kneser-ney", "deleted-interpolation --set paper_bins=yes", "class-based --num-classes 5"],
)
def test_commands_take_an_estimated_model(tmp_path, capsys, short_text, method):
    directory = tmp_path / "model"
    common = ["--train", short_text, "--order", "3", "--min-count", "2"]
    command = ["ngram", "--method", *method.split(), *common, "--output", directory]
    metrics = _json(capsys, *command)
    assert (
        5 < metrics["test"]["perplexity"] < 15
        and len(metrics["ngrams"]) == 3
        and metrics["cpu_seconds"] >= 0
    )
    assert _json(capsys, *command) == metrics  # finished: read, not estimated again
    assert _evaluate_test(capsys, directory) == metrics["test"]
    completed = _json(capsys, "complete", directory, "w2 w3", "--top-k", "3")["w2 w3"]
    assert "w1" in completed and len(completed) == 3
    (tmp_path / "text.txt").write_text("w1 w1 w2 w1\nw20 w1 w17 w19\n", encoding="utf-8")
    likely, unlikely = _json(capsys, "score", directory, tmp_path / "text.txt")["sentences"]
    assert likely["log_prob"] > unlikely["log_prob"] and likely["tokens"] == unlikely["tokens"] == 5
    assert main([*map(str, command), "--order", "2"]) == 2
    assert "with other options: order: 3 there, 2 now. Fix: " in capsys.readouterr().err


def test_weights_are_given_or_follow_the_frequency(tmp_path, capsys, short_corpus):
    for order in (2, 3):
        estimate("kneser-ney", short_corpus, tmp_path / str(order), order=order)
    parts = [tmp_path / "2", tmp_path / "3"]
    by_frequency = _json(capsys, "mix", *parts, "--by-frequency", "--output", tmp_path / "bins")
    assert len(by_frequency["weights"]) > 3
    assert _evaluate_test(capsys, tmp_path / "bins") == by_frequency["test"]
    assert mix([tmp_path / "bins", parts[1]], tmp_path / "fixed", weights=[0.5, 0.5])[
        "weights"
    ] == [[0.5, 0.5]]
    first, second, both = (
        np.exp(LanguageModel.load(tmp_path / name).model.next_log_probs([[2, 4]]))
        for name in ("bins", "3", "fixed")
    )
    np.testing.assert_allclose(both, (first + second) / 2, atol=1e-7)


def test_mixture_with_caches_is_tuned_saved_and_evaluated(tmp_path, capsys):
    text = tmp_path / "text.txt"
    words = np.array([*"abcdefghijklmnopqrst"])
    rng = np.random.default_rng(0)
    topics = [rng.choice(words, 4, replace=False) for _ in range(60)]
    text.write_text(
        "".join(" ".join(rng.choice(topic, 40)) + "\n" for topic in topics), encoding="utf-8"
    )
    stream = TextOptions(boundary="stream", min_count=1)
    plain = estimate("kneser-ney", open_corpus(train=[text]), tmp_path / "kn", order=2, text=stream)
    caches = ["--unigram-cache", "--cache-length", "100", "--uniform"]
    metrics = _json(capsys, "mix", tmp_path / "kn", "--output", tmp_path / "mixture", *caches)
    assert (
        metrics["components"] == ["back-off", "unigram-cache", "uniform"] and metrics["decay"] == 50
    )
    assert metrics["test"]["perplexity"] < 0.7 * plain["test"]["perplexity"]
    assert _evaluate_test(capsys, tmp_path / "mixture") == metrics["test"]
    given = dict(unigram_cache=50, cache_length=100, uniform=True)
    assert mix([tmp_path / "kn"], tmp_path / "given", **given)["test"] == metrics["test"]

    ngrams = LanguageModel.load(tmp_path / "kn")
    network = NPLM(len(ngrams.vocabulary), order=2, boundary="stream")
    LanguageModel(network, ngrams.vocabulary, ngrams.tokenizer_name).save(tmp_path / "network")
    both = [
        tmp_path / "kn",
        tmp_path / "network",
        "--continuous-cache",
        "--ngram-cache",
        "--cache-length",
        "50",
    ]
    metrics = _json(capsys, "mix", *both, "--output", tmp_path / "both")
    for part in ("kn", "network"):
        shutil.rmtree(tmp_path / part)  # the mixture holds copies
    # sums of TensorFlow's threads may differ in the last digit
    expected = pytest.approx(metrics["test"], rel=1e-12)
    assert _evaluate_test(capsys, tmp_path / "both") == expected
    assert metrics["components"] == ["back-off", "nplm", "ngram-cache", "continuous-cache"]
    assert metrics["flatness"] > 0 and metrics["ngram_decay"] >= 50
    assert metrics["test"]["perplexity"] < 0.8 * plain["test"]["perplexity"]


@pytest.fixture
def estimate_characters(tmp_path, text):
    """Function that estimates a model of characters, which are those of all splits."""

    def estimate_characters(name: str, **options) -> Path:
        corpus = open_corpus(tokenizer="characters", **{"train": [str(text)], **options})
        of_all = TextOptions(vocabulary_scope="corpus", min_count=1)
        estimate("kneser-ney", corpus, tmp_path / name, order=2, text=of_all)
        return tmp_path / name

    return estimate_characters


@pytest.fixture
def text(tmp_path) -> Path:
    """200 lines, each of 20 random letters."""
    rng = np.random.default_rng(0)
    path = tmp_path / "text.txt"
    lines = ["".join(rng.choice([*"abcdef"], 20)) for _ in range(200)]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "options, shares",
    [
        ({"all_lines": True}, "100% of the validation and 100% of the test"),
        ({"fractions": (0.9, 0.05, 0.05)}, "100% of the validation"),
    ],
)
def test_mixing_warns_of_a_model_that_was_trained_on_held_out_text(
    tmp_path, capsys, estimate_characters, options, shares
):
    first = estimate_characters("first")
    other = estimate_characters("other", **options)
    warning = (
        f"{other} was trained on {shares} sentences of {first}, so that perplexities of the "
        "mixture are too low there. Fix: train both with the same splits, for example with "
        "--corpus DIR of `prepare`."
    )
    capsys.readouterr()
    metrics = mix([first, other], tmp_path / "mixture", weights=[0.5, 0.5])
    assert capsys.readouterr().err == f"Warning: {warning}\n"
    assert metrics["warnings"] == [warning]
    again = mix([first, tmp_path / "mixture"], tmp_path / "again", weights=[0.5, 0.5])
    assert again["warnings"] == [warning]
    assert main(["evaluate", str(first), str(tmp_path / "mixture")]) == 0
    assert f"Warning: {tmp_path}/mixture: {warning}\n" in capsys.readouterr().err
    assert main(["evaluate", str(tmp_path / "mixture")]) == 0
    assert f"Warning: {tmp_path}/mixture: {warning}" in capsys.readouterr().err


def test_mixing_does_not_warn_of_lines_that_all_texts_have(
    tmp_path, capsys, text, estimate_characters
):
    lines = text.read_text(encoding="utf-8").splitlines()
    parts = {"train": lines[20:], "validation": lines[:20]}
    parts["mirrored"] = [line[::-1] for line in parts["train"]]  # the same vocabulary
    files = {}
    for name, part in parts.items():
        (tmp_path / name).write_text("\n".join([*part, "aba", "bab"]), encoding="utf-8")
        files[name] = [str(tmp_path / name)]
    validation = files["validation"]
    first = estimate_characters("first", train=files["train"], validation=validation)
    other = estimate_characters("other", train=files["mirrored"], validation=validation)
    capsys.readouterr()
    metrics = mix([first, other], tmp_path / "mixture")
    assert "warnings" not in metrics
    assert "Warning" not in capsys.readouterr().err


def test_models_that_do_not_match_are_not_mixed(tmp_path, capsys, short_corpus):
    for name, boundary, min_count in (
        ("kn", "sentence", 2),
        ("stream", "stream", 2),
        ("words", "sentence", 99),
    ):
        text = TextOptions(boundary=boundary, min_count=min_count)
        estimate("kneser-ney", short_corpus, tmp_path / name, order=2, text=text)
    for arguments, message in (
        (
            "kn stream --output mixture",
            "Received: --boundary stream, and --boundary sentence of {tmp}/kn. "
            "Fix: train both with the same --boundary.",
        ),
        (
            "kn words --output mixture",
            "words must have the same vocabulary as {tmp}/kn. Received: --min-count 99, and "
            "--min-count 2 of {tmp}/kn. Fix: train both with the same --min-count; or",
        ),
        ("kn --output mixture", "two models or more"),
        ("kn kn --weights 0.5 0.6 --output mixture", "sum to 1"),
        (
            "kn kn --weights 0.5 0.5 --by-frequency --output mixture",
            "either --weights or --by-frequency",
        ),
        ("kn none --output mixture", "does not exist. Fix: train a model"),
        ("kn kn --output words", "already holds a model"),
    ):
        words = [str(tmp_path / word) if word.isalpha() else word for word in arguments.split()]
        assert main(["mix", *words]) == 2
        assert message.format(tmp=tmp_path) in capsys.readouterr().err
        assert not (tmp_path / "mixture").exists()


def test_an_arpa_file_is_mixed_with_the_words_of_a_directory(tmp_path, capsys, short_corpus):
    for name, order, min_count in (("kn", 3, 40), ("more", 2, 1)):
        text = TextOptions(min_count=min_count)
        estimate("kneser-ney", short_corpus, tmp_path / name, order=order, text=text)
    assert main(["export", str(tmp_path / "more"), str(tmp_path / "more.arpa")]) == 0
    capsys.readouterr()
    parts = [str(tmp_path / "more.arpa"), str(tmp_path / "kn")]
    assert main(["mix", *parts, "--output", str(tmp_path / "mixture")]) == 0
    captured = capsys.readouterr()
    assert "words of more.arpa are not in the vocabulary. They count as <unk>" in captured.err
    mixed = LanguageModel.load(tmp_path / "mixture")
    assert mixed.vocabulary == LanguageModel.load(tmp_path / "kn").vocabulary
    assert captured.out.index(f"{tmp_path}/more.arpa, ") < captured.out.index(f"{tmp_path}/kn\n")
    (probabilities,) = np.exp(mixed.model.next_log_probs([[2, 4]]))
    assert probabilities.sum() == pytest.approx(1, abs=1e-5)
    imported = ["ngram", "--arpa", parts[0], "--vocabulary", f"{parts[1]}/vocabulary.txt"]
    assert main([*imported, "--output", str(tmp_path / "imported")]) == 0
    captured = capsys.readouterr()
    assert "words of more.arpa are not in the vocabulary" in captured.err
    assert "spelling model" not in captured.err
    both = [str(tmp_path / "imported"), parts[1]]
    assert main(["mix", *both, "--output", str(tmp_path / "again")]) == 0
    again = LanguageModel.load(tmp_path / "again")
    np.testing.assert_allclose(np.exp(again.model.next_log_probs([[2, 4]])[0]), probabilities)


def test_an_arpa_file_of_another_boundary_is_not_mixed(tmp_path, capsys, short_corpus):
    for name in ("sentence", "stream"):
        text = TextOptions(boundary=name)
        estimate("kneser-ney", short_corpus, tmp_path / name, order=2, text=text)
    arpa = tmp_path / "sentence.arpa"
    assert main(["export", str(tmp_path / "sentence"), str(arpa)]) == 0
    parts = [str(tmp_path / "stream"), str(arpa)]
    assert main(["mix", *parts, "--output", str(tmp_path / "mixture")]) == 2
    error = capsys.readouterr().err
    command = f"ngram --arpa {arpa} --boundary stream --vocabulary {parts[0]}/vocabulary.txt"
    assert f"Fix: import the file with `keras-nplm {command} --output DIR`" in error


def test_a_new_spelling_model_of_an_arpa_file_is_announced(tmp_path, capsys, short_corpus):
    estimate("kneser-ney", short_corpus, tmp_path / "kn", order=2)
    assert main(["export", str(tmp_path / "kn"), str(tmp_path / "kn.arpa")]) == 0
    arguments = ["--arpa", str(tmp_path / "kn.arpa"), "--output", str(tmp_path / "imported")]
    assert main(["ngram", *arguments]) == 0
    assert (
        "The spelling model of unknown words is new, of the words of kn.arpa. For the one of "
        "another model, add --vocabulary DIR/vocabulary.txt."
    ) in capsys.readouterr().err


def test_all_lines_train_an_ngram_model(tmp_path, capsys, short_text):
    command = ["ngram", "--train", short_text, "--min-count", "1"]
    metrics = _json(capsys, *command, "--all", "--output", tmp_path / "all")
    assert "validation" not in metrics and "test" not in metrics
    same = _json(capsys, *command, "--validation", short_text, "--output", tmp_path / "same")
    assert same["ngrams"] == metrics["ngrams"]
    assert main([str(word) for word in (*command, "--all", "--output", tmp_path / "all")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:] == [
        "no validation or test text; for a perplexity: "
        f"keras-nplm evaluate {tmp_path / 'all'} --text FILE",
        f"the model is in {tmp_path / 'all'}; next: keras-nplm complete {tmp_path / 'all'} "
        '"a context"',
    ]
    evaluated = _json(capsys, "evaluate", tmp_path / "all", "--text", short_text)
    assert evaluated["perplexity"] == pytest.approx(same["validation"]["perplexity"])
    assert main(["evaluate", str(tmp_path / "all")]) == 2
    assert "must have the split 'test'. Received: train. Fix: name" in capsys.readouterr().err


def test_validation_text_without_test_text_is_one_row(tmp_path, capsys, short_text):
    command = ["ngram", "--train", str(short_text), "--validation", str(short_text)]
    assert main([*command, "--output", str(tmp_path / "kn")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:3]] == ["tokens", "validation"]
    assert lines[3].startswith("the model is in ")
    mixed = _json(capsys, "mix", tmp_path / "kn", "--uniform", "--output", tmp_path / "mixture")
    assert "validation" in mixed and "test" not in mixed


def test_a_mixture_is_fitted_on_the_validation_text_of_any_part(tmp_path, capsys, short_text):
    command = ["ngram", "--train", str(short_text), "--min-count", "1", "--order", "2"]
    assert main([*command, "--all", "--output", str(tmp_path / "all")]) == 0
    held_out = ["--validation", str(short_text), "--order", "3"]
    assert main([*command, *held_out, "--output", str(tmp_path / "held-out")]) == 0
    parts = [str(tmp_path / "all"), str(tmp_path / "held-out")]
    mixed = _json(capsys, "mix", *parts, "--output", tmp_path / "mixture")
    assert mixed["validation"]["perplexity"] > 1
    assert main(["mix", parts[0], "--uniform", "--output", str(tmp_path / "no")]) == 2
    error = capsys.readouterr().err
    assert "needs a directory with validation text in its corpus/. Received: none. Fix:" in error


@pytest.mark.parametrize(
    "flags, message",
    [
        ("--all --method class-based", "The method class-based needs validation text"),
        ("--all --method deleted-interpolation", "drop --all, or give --method kneser-ney."),
        ("--all --fractions .8 .1 .1", "`--fractions` cannot be combined with `--all`"),
        ("--all --shuffle", "`--all` leaves no line for validation and test"),
    ],
)
def test_what_all_lines_cannot_have_is_refused(tmp_path, capsys, short_text, flags, message):
    command = ["ngram", "--train", str(short_text), *flags.split()]
    assert main([*command, "--output", str(tmp_path / "kn")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "kn").exists()


def test_probability_0_is_reported(tmp_path, capsys):
    closed = (
        "\\data\\\nngram 1=4\nngram 2=1\n\n\\1-grams:\n-99 <s>\n{eos} </s>\n-.6 the\n-.6 "
        "cat\n\n\\2-grams:\n"
    )
    for eos, status in ("-99", 2), ("-.3", 0):
        (tmp_path / "model.arpa").write_text(
            closed.format(eos=eos) + "-.1 the cat\n\n\\end\\\n", encoding="utf-8"
        )
        assert (
            main(["ngram", "--arpa", str(tmp_path / "model.arpa"), "--output", str(tmp_path / "m")])
            == status
        )
        assert ("add --boundary stream" in capsys.readouterr().err) == (status == 2)
    (tmp_path / "text").write_text("the cat sat\n", encoding="utf-8")
    assert (
        _json(capsys, "score", tmp_path / "m", tmp_path / "text")["sentences"][0]["log_prob"]
        is None
    )
    assert main(["score", str(tmp_path / "m"), str(tmp_path / "text")]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("-inf\t4\t")


@pytest.mark.parametrize("kept_files", [1, 2, 3, None])
def test_an_interrupted_search_for_classes_ends_in_the_same_classes(
    tmp_path, monkeypatch, short_corpus, kept_files
):
    """Interrupted after a sweep, or as the classes are known."""
    options = dict(order=3, num_classes=5)
    path = Path("model", "word_classes.tsv")
    # the search ends while words still move: one more sweep would find other classes
    monkeypatch.setattr("keras_nplm.models.ngrams.word_classes.CONVERGED", 0.4)
    estimate("class-based", short_corpus, tmp_path / "whole" / "model", **options)
    written = []

    def write_and_interrupt(target, arrays):
        write_arrays(target, arrays)
        written.append(target.name)
        if len(written) == kept_files:
            raise KeyboardInterrupt

    with monkeypatch.context() as context, pytest.raises(KeyboardInterrupt):
        context.setattr("keras_nplm.io.files.write_arrays", write_and_interrupt)
        context.setattr("keras_nplm.models.ngrams.class_based", Mock(side_effect=KeyboardInterrupt))
        estimate("class-based", short_corpus, tmp_path / "cut" / "model", **options)
    estimate("class-based", short_corpus, tmp_path / "cut" / "model", **options)
    assert (tmp_path / "cut" / path).read_bytes() == (tmp_path / "whole" / path).read_bytes()
    assert written and not (tmp_path / "cut" / "model" / "word_classes.npz").exists()


def test_word_classes_are_saved_and_reused(tmp_path, monkeypatch, short_corpus):
    options = dict(order=3)
    with monkeypatch.context() as context:
        context.setattr("keras_nplm.models.ngrams.class_based", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            estimate("class-based", short_corpus, tmp_path / "found", num_classes=5, **options)
    path = tmp_path / "found" / "word_classes.tsv"
    search = Mock(side_effect=exchange_classes)
    monkeypatch.setattr("keras_nplm.models.ngrams.exchange_classes", search)
    found = estimate("class-based", short_corpus, tmp_path / "found", num_classes=5, **options)
    start = search.call_args.kwargs["start"]
    assert len(np.unique(start)) > 2  # resumed from the classes of the interrupted run
    given = estimate("class-based", short_corpus, tmp_path / "given", word_classes=path, **options)
    assert given["test"] == found["test"] and search.call_count == 1
    assert (tmp_path / "given" / "word_classes.tsv").read_bytes() == path.read_bytes()
    path.write_text(path.read_text() + "\n")
    with pytest.raises(InputError, match="other options: word_classes: its files have changed"):
        estimate("class-based", short_corpus, tmp_path / "given", word_classes=path, **options)
