"""HTML report of a training run: learning curves, perplexity against Kneser-Ney, samples and a map
of the words.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from string import Template
from typing import cast

import numpy as np

from keras_nplm.data.boundary import predicts_end
from keras_nplm.data.corpus import HELD_OUT
from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.data.ids import EOS_ID, SPECIALS
from keras_nplm.data.tokenizers.base import Tokenizer
from keras_nplm.data.tokenizers.registry import get_tokenizer
from keras_nplm.data.vocabulary import Vocabulary
from keras_nplm.io.files import replace_file
from keras_nplm.language_model.description import TITLES, describe, list_properties
from keras_nplm.language_model.differences import HELD_OUT_KNOWLEDGE, find_held_out_mass
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.language_model.word_vectors import word_map
from keras_nplm.models.evaluation import evaluate, format_perplexity
from keras_nplm.models.networks.context_network import ContextNetwork
from keras_nplm.models.ngrams import kneser_ney
from keras_nplm.training.charts import draw_lines, draw_words, escape_html, render_svg
from keras_nplm.training.configurations import train_command
from keras_nplm.training.options import read_options

_FIGURES = (
    "perplexity",
    "perplexity_without_unk",
    "perplexity_per_word",
    "bits_per_character",
    "bits_per_byte",
)
_NO_COMMAND = "none: it was trained from Python; config.json beside this page has all options"
_OPTIONS = ("network", "embedding_dim", "hidden_units", "head", "objective")
_MAX_BASELINE_TOKENS = 20_000_000  # of training text: the n-gram model is estimated in memory
_MAP_WORDS = 250
_PAGE = Template("""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title><style>
html { background: #fff; } @media (prefers-color-scheme: dark) { html { filter: invert(.92) hue-rotate(180deg); } }
body { margin: auto; padding: 2rem 1.25rem; max-width: 66rem; font: 1.06rem/1.5 Charter, Georgia, serif; }
h2 { margin-top: 3rem; border-top: 1px solid #dcdad2; padding-top: .6rem; } p, blockquote { max-width: 44rem; }
h1, h3, p, pre, blockquote { overflow-wrap: anywhere; } h1, h3, pre, blockquote { white-space: pre-line; }
h3 { margin: 0; font-weight: normal; } pre { user-select: all; cursor: copy; }
pre, blockquote { background: #f4f2ea; padding: .7rem; margin: 1rem 0; } small, thead, summary { color: #63625c; }
svg { width: 100%; height: auto; } table { border-spacing: 0; overflow-x: auto; display: block; }
th, td { padding-right: 1.2rem; font-weight: normal; font-variant-numeric: tabular-nums; text-align: left; }
th, td { vertical-align: top; } summary { cursor: pointer; }
section { columns: 4 13rem; } section div { break-inside: avoid; margin-bottom: 1rem; }
section td { padding-right: .6rem; } section td:last-child { padding-right: 0; }
td i { display: block; height: .55rem; background: #2a7a4b; margin-top: .5rem; }
nav { display: flex; flex-wrap: wrap; gap: 1rem; } nav div { flex: 1 1 20rem; min-width: 0; }
.map { overflow-x: auto; } .map svg { min-width: 48rem; } @media (max-width: 40rem) { th, td { padding-right: .7rem; } }
</style></head><body>
<h1>$title</h1>
$properties
<p>The command that made it. One click selects all of it, to copy:</p>
<pre>$command</pre>
<h2>Text</h2>
<p>Tokens are those that are predicted: $predicted. Bits per character are comparable between tokenizers: they include
the spelling of the words that are &lt;unk&gt;, out of the vocabulary.</p>
$splits
<h2>Perplexity</h2>
<p>$comparison</p>
$models
<p>Exact perplexity per predicted token; lower is better.</p>
<h2>Learning curves</h2>
<p>$training Validation perplexity is measured at the end of the epoch, without dropout, for the network alone; the
learning rate, too.</p>
<nav>$curves</nav>
<p>Best epoch: $best_epoch. Seconds: $seconds. N-grams per second: $ngrams_per_second.</p>
<details><summary>Table of epochs</summary>$history</details>
<h2>Continuations</h2>
<p>The most probable next words after the first words of validation sentences, with P(w | context).</p>
<section>$next_words</section>
<p>Texts sampled word by word, with seeds 1 to 3 and temperature 0.7:</p>
$texts
<h2>Nearest words</h2>
<p>Nearest neighbours by the cosine of the word vectors (rows of C). The words listed are frequent words of 5 letters or
more, without the most frequent hundredth.</p>
$nearest
<h2>Map of the words</h2>
<p>A t-SNE map of the most frequent words: words with similar vectors are close together. Directions have no
meaning.</p>
<div class="map">$map</div>
</body></html>
""")


def write_run_report(
    path: str | os.PathLike,
    language_model: LanguageModel,
    config: dict,
    metrics: dict,
    command: str | None = None,
) -> None:
    """Write a self-contained HTML report of a training run from its `config.json` and
    `metrics.json`.

    `command` is the command line that made the run. Default: the one that `config.json` gives, if
    its text has a name to repeat.
    """
    # of a model that `train` has written
    corpus = cast(EncodedCorpus, language_model.corpus)
    network = cast(ContextNetwork, language_model.network)
    is_end_predicted = predicts_end(language_model.boundary)
    page = _PAGE.substitute(
        title=escape_html(f"{Path(path).absolute().parent.name}: a language model"),
        properties=_list_properties(language_model, config, metrics),
        command=escape_html(command or train_command(config) or _NO_COMMAND),
        splits=_list_splits(corpus, metrics, is_end_predicted),
        predicted="words and &lt;/s&gt;" if is_end_predicted else "words, without sentence ends",
        **_compare_models(language_model, corpus, network, config, metrics),
        **_show_curves(metrics),
        **_show_continuations(language_model, corpus),
        **_show_word_vectors(language_model, network),
        **{name: f"{metrics[name]:,}" for name in ("best_epoch", "seconds", "ngrams_per_second")},
    )
    with replace_file(path) as temporary:
        temporary.write_text(page, encoding="utf-8")


def _list_properties(language_model: LanguageModel, config: dict, metrics: dict) -> str:
    properties = list_properties(describe(language_model, config=config, metrics=metrics))
    flat = read_options(config).flatten()
    named = [f"{name} {flat[name]}" for name in _OPTIONS if name in flat]
    properties["Options"] = ", ".join(named)
    return _format_table([], [(name, text.replace("`", "")) for name, text in properties.items()])


def _list_splits(corpus: EncodedCorpus, metrics: dict, is_end_predicted: bool) -> str:
    rows = []
    for split, counts in corpus.splits.items():
        tokens = counts["tokens"] + is_end_predicted * counts["sentences"]
        figures = [metrics.get(split, {}).get(name) for name in _FIGURES]
        known = [format_perplexity(figure, 3) for figure in figures]
        rows.append([split, f"{tokens:,}", f"{counts['unk_tokens']:,}", *known])
    header = ["split", "tokens", "<unk>", *(name.replace("_", " ") for name in _FIGURES)]
    return _format_table(header, rows)


def _show_curves(metrics: dict) -> dict[str, str]:
    history = metrics["history"]
    series = {name: [epoch[name] for epoch in history] for name in history[0]}
    perplexities = {"validation": series["validation_perplexity"]}
    training = "Training perplexity is unknown: the training loss is no likelihood."
    if "train_perplexity" in series:
        perplexities = {"training": series["train_perplexity"]} | perplexities
        training = "Training perplexity is the mean over an epoch, with dropout."
    drawn = ""
    for title, lines in (
        ("perplexity", perplexities),
        ("learning rate", {"": series["learning_rate"]}),
    ):
        chart = draw_lines(title, lines, metrics["best_epoch"])
        drawn += f"<div>{render_svg(chart, f'{title} by epoch')}</div>"
    rows = ([f"{value:.5g}" for value in epoch.values()] for epoch in history)
    return {"training": training, "curves": drawn, "history": _format_table(history[0], rows)}


def _compare_models(
    language_model: LanguageModel,
    corpus: EncodedCorpus,
    network: ContextNetwork,
    config: dict,
    metrics: dict,
) -> dict[str, str]:
    """Compare the model with its network alone and with Kneser-Ney."""
    splits = [split for split in HELD_OUT if split in metrics]
    last = splits[-1]
    whole = TITLES[language_model.model.kind or "nplm"]
    perplexities: dict[str, Mapping[str, float]] = {
        whole: {split: metrics[split]["perplexity"] for split in splits}
    }
    if "network" in metrics:
        perplexities["network alone"] = metrics["network"]
    comparison = "Without a Kneser-Ney model: the training text would need too much memory."
    baseline = metrics.get("kneser_ney")
    if not baseline and corpus.splits["train"]["tokens"] <= _MAX_BASELINE_TOKENS:
        size = len(language_model.vocabulary)
        train_ids = corpus.ids("train")
        ngrams = kneser_ney(train_ids, size, network.ngram_order, network.boundary)
        baseline = {split: evaluate(ngrams, corpus.ids(split))["perplexity"] for split in splits}
    if baseline:
        perplexities["Kneser-Ney"] = baseline
        change = perplexities[whole][last] / baseline[last] - 1
        comparison = (
            f"The {whole}’s {last} perplexity is {abs(change):.1%} "
            f"{'lower' if change < 0 else 'higher'} than that of a Kneser-Ney model (interpolated, "
            "modified) of the same text."
        )
        if mass := find_held_out_mass(language_model):
            comparison += (
                f" They are not comparable: the network has `held_out_mass` {mass:g}, and "
                f"{HELD_OUT_KNOWLEDGE}."
            )
    rows = [
        [name, *(format_perplexity(figures[split]) for split in splits)]
        for name, figures in perplexities.items()
    ]
    return {"comparison": comparison, "models": _format_table(["", *splits], rows)}


def _format_table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = "".join(f"<th>{escape_html(cell)}</th>" for cell in header)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape_html(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def choose_prompts(
    ids: np.ndarray, vocabulary: Vocabulary, tokenizer: str | Tokenizer
) -> list[str]:
    """Choose the first four words of up to four sentences, spread over int [T] ids; each word has a
    letter.
    """
    join = get_tokenizer(tokenizer).join
    # the text of a token: the name of a byte has letters, too
    has_letter = [_has_letter(join([word])) for word in vocabulary.words]
    is_plain = np.array(has_letter) & (np.arange(len(vocabulary)) >= len(SPECIALS))
    starts = np.append(0, np.flatnonzero(ids == EOS_ID) + 1)
    openings = ids[starts[starts + 4 <= len(ids)][:, None] + np.arange(4)]  # [S, 4]
    openings = openings[is_plain[openings].all(axis=1)]
    chosen = openings[:: len(openings) // 4 or 1][:4]
    return [join(vocabulary.decode(opening)) for opening in chosen] or [""]


def _show_continuations(language_model: LanguageModel, corpus: EncodedCorpus) -> dict[str, str]:
    tokenizer = language_model.tokenizer
    cards = []
    texts = []
    ids = corpus.ids("validation")
    contexts = choose_prompts(ids, language_model.vocabulary, tokenizer)
    for context in contexts:
        card = f"<div><h3><bdi>{escape_html(context)}</bdi> …</h3><table>"
        for word, p in (proposed := language_model.next_words(context, 6)):
            bar = f'<i style="width:{3 * p / proposed[0][1]:.1f}rem"></i>'
            card += (
                f"<tr><td><bdi>{escape_html(word)}</bdi></td><td>{bar}</td><td>{p:.3f}</td></tr>"
            )
        cards.append(card + "</table></div>")
    for seed, prompt in zip((1, 2, 3), contexts * 3, strict=False):
        text = language_model.generate(prompt, 40, seed=seed, temperature=0.7)
        text = f"<em>{escape_html(prompt)}</em>{tokenizer.separator}{escape_html(text)}"
        texts.append(f'<blockquote dir="auto">{text}</blockquote>')
    return {"next_words": "".join(cards), "texts": "\n".join(texts)}


def _show_word_vectors(language_model: LanguageModel, network: ContextNetwork) -> dict[str, str]:
    """Nearest words of frequent words, the long ones first; and a map of the most frequent words."""
    words = language_model.vocabulary.words
    numbers = range(len(SPECIALS), len(words))
    ids = [number for number in numbers if _has_letter(words[number])] or [*numbers]
    candidates = [words[number] for number in ids if number >= len(SPECIALS) + len(words) // 100]
    frequent = sorted(candidates, key=lambda word: sum(map(str.isalpha, word)) < 5)[:20]
    near = [
        [word, ", ".join(f"{near} {x:.2f}" for near, x in language_model.nearest(word, 5))]
        for word in frequent
    ]
    ids = ids[:_MAP_WORDS]
    places = word_map(network.embed.C.numpy()[ids])
    chart = draw_words(places, [words[number] for number in ids])
    nearest = _format_table(["word", "nearest words, with their cosines"], near)
    return {"nearest": nearest, "map": render_svg(chart, "map of the words")}


def _has_letter(word: str) -> bool:
    return any(map(str.isalpha, word))
