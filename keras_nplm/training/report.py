"""HTML report of a training run: learning curves, perplexity against Kneser-Ney, samples and a map
of the words.
"""

import os
from collections.abc import Iterable
from string import Template
from typing import cast

import numpy as np

from keras_nplm.data.boundary import predicts_end
from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.data.ids import EOS_ID, SPECIALS
from keras_nplm.data.tokenizers.base import Tokenizer
from keras_nplm.data.tokenizers.registry import get_tokenizer
from keras_nplm.data.vocabulary import Vocabulary
from keras_nplm.io.files import replace_file
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.language_model.word_vectors import word_map
from keras_nplm.models.evaluation import format_perplexity
from keras_nplm.models.networks.context_network import ContextNetwork
from keras_nplm.models.ngrams import kneser_ney
from keras_nplm.models.text_figures import evaluate_split
from keras_nplm.training.charts import draw_lines, draw_words, escape_html, render_svg
from keras_nplm.training.configurations import train_command

_MAX_BASELINE_TOKENS = 20_000_000  # of training text: the n-gram model is estimated in memory
_MAP_WORDS = 250
_PAGE = Template("""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>$corpus: a neural probabilistic language model</title><style>
html { background: #fff; } @media (prefers-color-scheme: dark) { html { filter: invert(.92) hue-rotate(180deg); } }
body { margin: auto; padding: 2rem 1.25rem; max-width: 66rem; font: 1.06rem/1.5 Charter, Georgia, serif; }
h2 { margin-top: 3rem; border-top: 1px solid #dcdad2; padding-top: .6rem; } p, blockquote { max-width: 44rem; }
h1, h3, pre, blockquote { overflow-wrap: anywhere; white-space: pre-line; } h3 { margin: 0; font-weight: normal; }
pre, blockquote { background: #f4f2ea; padding: .7rem; margin: 1rem 0; } small, thead, summary { color: #63625c; }
svg { width: 100%; height: auto; } table { border-spacing: 0; overflow-x: auto; display: block; }
th, td { padding-right: 1.2rem; font-weight: normal; font-variant-numeric: tabular-nums; text-align: left; }
section { columns: 4 13rem; } section div { break-inside: avoid; margin-bottom: 1rem; }
td i { display: block; height: .55rem; background: #2a7a4b; }
</style></head><body>
<h1>$corpus</h1>
<p>A neural probabilistic language model: $sizes. Network, head, objective: $parts.</p>
<pre>$command</pre>
$splits
<p>Vocabulary |V|: $words. Parameters: $parameters. Best epoch: $best_epoch. Seconds: $seconds. N-grams per second:
$ngrams_per_second.</p>
<h2>Learning curves</h2>
<p>$training Validation perplexity is measured at the end of the epoch, without dropout.$shortlist</p>
$curves
<details><summary>Table of epochs</summary>$history</details>
<h2>Perplexity</h2>
<p>$comparison Exact perplexity per predicted token ($predicted); lower is better. “Without &lt;unk&gt;” leaves out
&lt;unk&gt;, which stands for every word outside the vocabulary. The last two columns are comparable between
tokenizers: they count characters, and words between spaces, and include the spelling of the words that are
&lt;unk&gt;.</p>
$models
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
$map
</body></html>
""")


def write_run_report(
    path: str | os.PathLike, language_model: LanguageModel, config: dict, metrics: dict
) -> None:
    """Write a self-contained HTML report of a training run from its `config.json` and
    `metrics.json`.
    """
    network = _get_network(language_model)
    splits = []
    for split, counts in _get_corpus(language_model).splits.items():
        ends = counts["sentences"] if predicts_end(language_model.boundary) else 0
        splits.append(
            [
                split,
                *(
                    f"{number:,}"
                    for number in (counts["tokens"] + ends, ends, counts["unk_tokens"])
                ),
            ]
        )
    page = _PAGE.substitute(
        corpus=escape_html(config["corpus"]),
        sizes=f"n = {network.order}, m = {network.embedding_dim}, h = {config['hidden_units']}",
        parts=escape_html(f"{config['network']}, {config['head']}, {config['objective']}"),
        command=escape_html(train_command(config) or ""),
        splits=_format_table(["split", "tokens predicted", "of these </s>", "<unk>"], splits),
        words=f"{len(language_model.vocabulary):,}",
        **{
            name: f"{metrics[name]:,}"
            for name in ("parameters", "best_epoch", "seconds", "ngrams_per_second")
        },
        **_show_curves(config, metrics["history"], metrics["best_epoch"]),
        **_compare_with_ngrams(language_model, metrics),
        **_show_continuations(language_model),
        **_show_word_vectors(language_model),
    )
    with replace_file(path) as temporary:
        temporary.write_text(page, encoding="utf-8")


def _show_curves(config: dict, history: list[dict], best: int) -> dict[str, str]:
    series = {name: [epoch[name] for epoch in history] for name in history[0]}
    is_measured = "train_perplexity" in series
    perplexities = {"training": series["train_perplexity"]} if is_measured else {}
    perplexities["validation"] = series["validation_perplexity"]
    charts = {
        "perplexity": perplexities,
        "learning rate at the end of the epoch": {"": series["learning_rate"]},
    }
    training = (
        "is the mean over an epoch, with dropout"
        if is_measured
        else "is unknown: training uses a sampled loss"
    )
    shortlist = (
        " These perplexities are of the network alone, over its short-list. The "
        "table "
        "below has all words."
    )
    return {
        "training": f"Training perplexity {training}.",
        "shortlist": shortlist if config.get("shortlist_size") else "",
        "curves": render_svg(draw_lines(charts, best), "perplexity and learning rate by epoch"),
        "history": _format_table(
            history[0], ([f"{value:.5g}" for value in epoch.values()] for epoch in history)
        ),
    }


def _compare_with_ngrams(language_model: LanguageModel, metrics: dict) -> dict[str, str]:
    order = _get_network(language_model).ngram_order
    boundary = language_model.boundary
    corpus = _get_corpus(language_model)
    models = {"network": metrics}
    splits = [split for split in ("validation", "test") if split in metrics]
    last = splits[-1]
    comparison = "Without a Kneser–Ney model: the training text would need too much memory."
    if corpus.splits["train"]["tokens"] <= _MAX_BASELINE_TOKENS:
        ngrams = kneser_ney(corpus.ids("train"), len(language_model.vocabulary), order, boundary)
        figures = {
            split: evaluate_split(ngrams, corpus, split, None, language_model.spelling)
            for split in splits
        }
        models[f"KN {order}-gram"] = figures
        ratio = metrics[last]["perplexity"] / figures[last]["perplexity"]
        comparison = f"""The network’s {last} perplexity is {ratio:.3f} times the perplexity of the Kneser–Ney (KN) model:
            interpolated, modified, of order {order}, estimated from the same text."""
    rows = []
    for name, model in models.items():
        perplexities = [model[split]["perplexity"] for split in splits]
        others = [model[last].get(key) for key in ("perplexity_without_unk", "perplexity_per_word")]
        bits = format_perplexity(model[last].get("bits_per_character"), digits=3)
        rows.append([name, *map(format_perplexity, [*perplexities, *others]), bits])
    columns = ["", *splits, f"{last} without <unk>", f"{last} per word", "bits per character"]
    return {
        "comparison": comparison,
        "predicted": "words and &lt;/s&gt;"
        if predicts_end(boundary)
        else "words, without sentence ends",
        "models": _format_table(columns, rows),
    }


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
    chosen = (
        openings[np.unique(np.linspace(0, len(openings) - 1, 4).astype(int))]
        if len(openings)
        else []
    )
    return [join(vocabulary.decode(opening)) for opening in chosen] or [""]


def _show_continuations(language_model: LanguageModel) -> dict[str, str]:
    tokenizer = language_model.tokenizer
    cards = []
    texts = []
    ids = _get_corpus(language_model).ids("validation")
    contexts = choose_prompts(ids, language_model.vocabulary, tokenizer)
    for context in contexts:
        card = f"<div><h3><bdi>{escape_html(context)}</bdi> …</h3><table>"
        for word, p in (proposed := language_model.next_words(context, 6)):
            bar = f'<i style="width:{4 * p / proposed[0][1]:.1f}rem"></i>'
            card += (
                f"<tr><td><bdi>{escape_html(word)}</bdi></td><td>{bar}</td><td>{p:.3f}</td></tr>"
            )
        cards.append(card + "</table></div>")
    for seed, prompt in zip((1, 2, 3), contexts * 3, strict=False):
        text = language_model.generate(prompt, 40, seed=seed, temperature=0.7)
        text = f"<em>{escape_html(prompt)}</em>{tokenizer.separator}{escape_html(text)}"
        texts.append(f'<blockquote dir="auto">{text}</blockquote>')
    return {"next_words": "".join(cards), "texts": "\n".join(texts)}


def _show_word_vectors(language_model: LanguageModel) -> dict[str, str]:
    """Nearest words of frequent words, the long ones first; and a map of the most frequent
    words.
    """
    words = language_model.vocabulary.words
    candidates = [word for word in words[len(SPECIALS) + len(words) // 100 :] if _has_letter(word)]
    frequent = sorted(candidates, key=lambda word: sum(map(str.isalpha, word)) < 5)[:20]
    near = [
        [word, ", ".join(f"{near} {x:.2f}" for near, x in language_model.nearest(word, 5))]
        for word in frequent
    ]
    numbers = range(len(SPECIALS), len(words))
    ids = [number for number in numbers if _has_letter(words[number])][:_MAP_WORDS] or [
        *numbers[:_MAP_WORDS]
    ]
    vectors = _get_network(language_model).embed.C.numpy()
    figure = draw_words(word_map(vectors[ids]), [words[number] for number in ids])
    nearest = _format_table(["word", "nearest words, with their cosines"], near)
    return {"nearest": nearest, "map": render_svg(figure, "map of the words")}


def _get_network(language_model: LanguageModel) -> ContextNetwork:
    """Return the network of a model that `train` has written."""
    return cast(ContextNetwork, language_model.network)


def _get_corpus(language_model: LanguageModel) -> EncodedCorpus:
    """Return the text of a model that `train` has written."""
    return cast(EncodedCorpus, language_model.corpus)


def _has_letter(word: str) -> bool:
    return any(map(str.isalpha, word))
