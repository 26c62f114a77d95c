"""HTML report of a training run: learning curves, perplexity against Kneser-Ney, samples and a map
of the words.
"""

import dataclasses
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from string import Template
from typing import cast

import numpy as np

from keras_nplm.data.boundary import predicts_end
from keras_nplm.data.corpus import HELD_OUT
from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.data.ids import EOS_ID, SPECIALS
from keras_nplm.data.text_counts import TOTALS
from keras_nplm.data.tokenizers.base import Tokenizer
from keras_nplm.data.tokenizers.registry import get_tokenizer
from keras_nplm.data.vocabulary import Vocabulary
from keras_nplm.io.files import CONTENT, replace_file
from keras_nplm.language_model.comparison import HELD_OUT_KNOWLEDGE
from keras_nplm.language_model.differences import find_held_out_mass
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.language_model.word_vectors import word_map
from keras_nplm.models.evaluation import evaluate, format_perplexity
from keras_nplm.models.hybrid import Hybrid
from keras_nplm.models.mixture import Mixture
from keras_nplm.models.networks.context_network import ContextNetwork
from keras_nplm.models.ngrams import kneser_ney
from keras_nplm.models.shortlist import BACKGROUND, NETWORK, Shortlist
from keras_nplm.models.text_figures import TextSize, compute_text_figures
from keras_nplm.training.charts import MAP_SIZE, draw_lines, draw_words, escape_html, render_svg
from keras_nplm.training.configurations import train_command
from keras_nplm.training.options import read_options

_EQUALS = "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}"
_PERPLEXITIES = ("perplexity", "perplexity_without_unk", "perplexity_per_word")
_MIXTURE = "mixture"
_NETWORK_ALONE = "network alone"
_MAX_BASELINE_TOKENS = 20_000_000  # of training text: the n-gram model is estimated in memory
_MAP_WORDS = 250
_NARROW_MAP_WORDS = 90  # on a telephone
_NARROW_MAP_SIZE = (420, 600)
# a text file in the name of a corpus; see `open_corpus`
_FILE = re.compile(rf"(?:\w+(?: [\d.]+)?: )?(\S.*?){CONTENT} ?")
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
.narrow { display: none; }
@media (max-width: 40rem) { .wide { display: none; } .narrow { display: block; } th, td { padding-right: .7rem; } }
</style></head><body>
<h1>$title</h1>
<p>$model</p>
<p>$sizes</p>
$command
<h2>Text</h2>
<p>Text: $corpus. Vocabulary |V|: $words words.</p>
$splits
<h2>Perplexity</h2>
<p>$comparison</p>
$models
<p>Exact perplexity per predicted token ($predicted); lower is better. Bits per character are comparable between
tokenizers: they include the spelling of the words that are &lt;unk&gt;, out of the vocabulary.</p>
<details><summary>More figures of the $whole</summary>$figures</details>
<h2>Learning curves</h2>
<p>$training Validation perplexity is measured at the end of the epoch, without dropout. $curve_end</p>
<nav>$curves</nav>
<p>Best epoch: $best_epoch. Parameters: $parameters. Seconds: $seconds. N-grams per second: $ngrams_per_second.</p>
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
$map
</body></html>
""")


@dataclasses.dataclass(frozen=True)
class _Contender:
    """A row of the table of perplexities: a model, or a part of it."""

    name: str
    perplexities: Mapping[str, float | None]
    """by split"""
    weight: float | None = None
    """in a mixture"""


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
    contenders = _list_contenders(language_model, metrics)
    directory = Path(path).absolute().parent.name
    page = _PAGE.substitute(
        title=escape_html(f"{directory}: a language model of {name_text(config['corpus'])}"),
        model=_describe_model(contenders),
        sizes=_describe_network(language_model, config),
        command=_show_command(command or train_command(config)),
        corpus=escape_html(config["corpus"].removeprefix("text ")),
        words=f"{len(language_model.vocabulary):,}",
        splits=_count_splits(language_model),
        **{
            name: f"{metrics[name]:,}"
            for name in ("parameters", "best_epoch", "seconds", "ngrams_per_second")
        },
        **_show_curves(config, metrics, contenders),
        **_compare_models(language_model, config, metrics, contenders),
        **_show_continuations(language_model),
        **_show_word_vectors(language_model),
    )
    with replace_file(path) as temporary:
        temporary.write_text(page, encoding="utf-8")


def name_text(corpus: str) -> str:
    """Return the name of a corpus for a title: of text files the name of the first one.

    >>> name_text("text my/poems.txt (9 bytes, crc32 0123abcd) split 0.8 0.1 0.1")
    'poems.txt'
    >>> name_text("brown")
    'brown'
    """
    if not corpus.startswith("text "):
        return corpus
    files = [Path(file).name for file in _FILE.findall(corpus.removeprefix("text "))]
    if not files:
        return corpus
    more = len(files) - 1
    return files[0] if not more else f"{files[0]} and {more} more file{'s' * (more > 1)}"


def _describe_model(contenders: Sequence[_Contender]) -> str:
    """Say what the model is: a mixture with its weights, or a network."""
    whole, *others = contenders
    if whole.name != _MIXTURE:
        return f"A neural probabilistic language model: a {escape_html(whole.name)}."
    network, ngrams = others
    return (
        f"A mixture: P(w | context) = {network.weight:.3f} P(w | context) of the network + "
        f"{ngrams.weight:.3f} P(w | context) of {ngrams.name}. "
        "The weights were fitted on validation."
    )


def _describe_network(language_model: LanguageModel, config: dict) -> str:
    network = _get_network(language_model)
    parts = escape_html(f"{config['network']}, {config['head']}, {config['objective']}")
    sizes = f"A word vector has m{_EQUALS}{network.embedding_dim} numbers"
    if "hidden_units" in read_options(config).without_effect:
        sizes += ". There is no hidden layer."
    else:
        sizes += f", the hidden layer h{_EQUALS}{config['hidden_units']} units."
    return (
        f"The network reads {network.order - 1} tokens of context (n{_EQUALS}{network.order}). "
        f"{sizes} Network, head, objective: {parts}."
    )


def _show_command(command: str | None) -> str:
    if command is None:
        return "<p>It was trained from Python; config.json beside this page has all options.</p>"
    return (
        "<p>The command that made it. One click selects all of it, to copy:</p>\n"
        f"<pre>{escape_html(command)}</pre>"
    )


def _count_splits(language_model: LanguageModel) -> str:
    splits = []
    for split, counts in _get_corpus(language_model).splits.items():
        ends = counts["sentences"] if predicts_end(language_model.boundary) else 0
        numbers = [counts["tokens"] + ends, ends, counts["unk_tokens"]]
        splits.append([split, *(f"{number:,}" for number in numbers)])
    return _format_table(["split", "tokens predicted", "of these </s>", "<unk>"], splits)


def _show_curves(config: dict, metrics: dict, contenders: Sequence[_Contender]) -> dict[str, str]:
    history = metrics["history"]
    best = metrics["best_epoch"]
    series = {name: [epoch[name] for epoch in history] for name in history[0]}
    is_measured = "train_perplexity" in series
    perplexities = {"training": series["train_perplexity"]} if is_measured else {}
    perplexities["validation"] = series["validation_perplexity"]
    training = (
        "is the mean over an epoch, with dropout"
        if is_measured
        else "is unknown: the training loss is no likelihood"
    )
    charts = [
        draw_lines("perplexity", perplexities, best),
        draw_lines("learning rate at the end of the epoch", {"": series["learning_rate"]}, best),
    ]
    titles = ["perplexity by epoch", "learning rate by epoch"]
    drawn = [render_svg(*pair) for pair in zip(charts, titles, strict=True)]
    return {
        "training": f"Training perplexity {training}.",
        "curve_end": _explain_curve_end(config, metrics, contenders),
        "curves": "".join(f"<div>{svg}</div>" for svg in drawn),
        "history": _format_table(
            history[0], ([f"{value:.5g}" for value in epoch.values()] for epoch in history)
        ),
    }


def _explain_curve_end(config: dict, metrics: dict, contenders: Sequence[_Contender]) -> str:
    """Say where in the table of perplexities the best epoch of the curve is."""
    if config.get("shortlist_size"):
        return (
            "These perplexities are of the network alone, over its short-list. The table above has "
            "all words."
        )
    alone = next((part for part in contenders if part.name == _NETWORK_ALONE), None)
    if alone is None:
        return ""
    perplexity = format_perplexity(alone.perplexities["validation"])
    return (
        f"The curve is of the network alone, without Kneser-Ney. Its best epoch, "
        f"{metrics['best_epoch']}, has the validation perplexity {perplexity}, as the row “network "
        "alone” of the table above."
    )


def _list_contenders(language_model: LanguageModel, metrics: dict) -> list[_Contender]:
    """List the model, its parts that predict alone, and Kneser-Ney."""
    model = language_model.model
    splits = _list_splits(metrics)
    whole = {split: metrics[split]["perplexity"] for split in splits}
    if isinstance(model, Mixture):
        (weights,) = metrics["weights"]
        ngrams = _name_ngrams(model.parts[BACKGROUND].order)
        return [
            _Contender(_MIXTURE, whole),
            _Contender(_NETWORK_ALONE, metrics["network"], weights[NETWORK]),
            _Contender(ngrams, metrics["kneser_ney"], weights[BACKGROUND]),
        ]
    if isinstance(model, Hybrid):
        ngrams = _name_ngrams(model.background.order)
        name = f"network with {ngrams}, inside"
        return [_Contender(name, whole), _Contender(ngrams, metrics["kneser_ney"])]
    name = "network"
    if isinstance(model, Shortlist):
        name = "network of a short-list, with a model of all other words"
    contenders = [_Contender(name, whole)]
    corpus = _get_corpus(language_model)
    if corpus.splits["train"]["tokens"] <= _MAX_BASELINE_TOKENS:
        contenders.append(_estimate_ngrams(language_model, splits))
    return contenders


def _list_splits(metrics: dict) -> list[str]:
    """List the splits with figures: a run may have no test text."""
    return [split for split in HELD_OUT if split in metrics]


def _name_ngrams(order: int) -> str:
    return f"Kneser-Ney, n{_EQUALS}{order}"


def _estimate_ngrams(language_model: LanguageModel, splits: Sequence[str]) -> _Contender:
    """Estimate a Kneser-Ney model of the same text, of the network's order, and evaluate it."""
    corpus = _get_corpus(language_model)
    order = _get_network(language_model).ngram_order
    size = len(language_model.vocabulary)
    ngrams = kneser_ney(corpus.ids("train"), size, order, language_model.boundary)
    perplexities = {split: evaluate(ngrams, corpus.ids(split))["perplexity"] for split in splits}
    return _Contender(_name_ngrams(order), perplexities)


def _compare_models(
    language_model: LanguageModel,
    config: dict,
    metrics: dict,
    contenders: Sequence[_Contender],
) -> dict[str, str]:
    whole = contenders[0]
    splits = _list_splits(metrics)
    last = splits[-1]
    has_weights = any(part.weight is not None for part in contenders)
    header = ["", *(["weight"] if has_weights else []), *splits]
    rows = []
    for part in contenders:
        bits = _compute_bits(part.perplexities[last], metrics[last])
        cells = [part.name]
        if has_weights:
            cells.append("" if part.weight is None else f"{part.weight:.3f}")
        cells += [format_perplexity(part.perplexities[split]) for split in splits]
        rows.append([*cells, format_perplexity(bits, digits=3)])
    comparison = "Without a Kneser-Ney model: the training text would need too much memory."
    if len(contenders) > 1:
        comparison = _compare_with_ngrams(whole, contenders[-1], last)
        comparison += _explain_held_out_mass(language_model, config)
    is_end_predicted = predicts_end(language_model.boundary)
    return {
        "whole": escape_html(whole.name),
        "comparison": comparison,
        "predicted": "words and &lt;/s&gt;" if is_end_predicted else "words, without sentence ends",
        "models": _format_table([*header, f"bits per character, {last}"], rows),
        "figures": _list_more_figures(metrics),
    }


def _list_more_figures(metrics: dict) -> str:
    rows = []
    for split in _list_splits(metrics):
        figures = metrics[split]
        perplexities = [figures.get(name) for name in _PERPLEXITIES]
        bits = [figures.get(name) for name in ("bits_per_character", "bits_per_byte")]
        cells = [format_perplexity(figure, digits=3) for figure in bits]
        rows.append([split, *map(format_perplexity, perplexities), *cells])
    header = ["", "perplexity", "without <unk>", "per word", "bits per character", "bits per byte"]
    return _format_table(header, rows)


def _compare_with_ngrams(whole: _Contender, ngrams: _Contender, split: str) -> str:
    name = whole.name if whole.name == _MIXTURE else "model"
    perplexity = whole.perplexities[split]
    other = ngrams.perplexities[split]
    if perplexity is None or other is None:
        return f"The {name} beside a Kneser-Ney model of the same text:"
    change = perplexity / other - 1
    direction = "lower" if change < 0 else "higher"
    return (
        f"The {name}’s {split} perplexity is {abs(change):.1%} {direction} than that of a Kneser-Ney "
        "model (interpolated, modified) of the same text."
    )


def _explain_held_out_mass(language_model: LanguageModel, config: dict) -> str:
    """Say that the network knows words of the other splits, which Kneser-Ney does not."""
    mass = find_held_out_mass(language_model.model, config)
    if not mass:
        return ""
    return (
        f" The two are not comparable: the network has `held_out_mass` {mass:g}, Kneser-Ney has none. "
        f"{HELD_OUT_KNOWLEDGE}"
    )


def _compute_bits(perplexity: float | None, figures: dict) -> float | None:
    """Return bits per character of a perplexity, over the text that `figures` are of."""
    if perplexity is None or figures.get("bits_per_character") is None:
        return None
    size = TextSize(*(figures[name] for name in (*TOTALS, "spelling_log_prob")))
    log_prob = -figures["tokens"] * math.log(perplexity)
    return cast(float, compute_text_figures(log_prob, size)["bits_per_character"])


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
    nearest = _format_table(["word", "nearest words, with their cosines"], near)
    places = word_map(vectors[ids])
    mapped = [words[number] for number in ids]
    return {"nearest": nearest, "map": _draw_maps(places, mapped)}


def _draw_maps(places: np.ndarray, words: Sequence[str]) -> str:
    """Draw a map of the words for a wide window, and one of fewer words for a narrow one."""
    few = min(len(words), _NARROW_MAP_WORDS)
    wide = draw_words(places, words, MAP_SIZE)
    narrow = draw_words(places[:few], words[:few], _NARROW_MAP_SIZE)
    return (
        f'<div class="wide">{render_svg(wide, "map of the words")}</div>\n'
        f'<div class="narrow">{render_svg(narrow, "map of the most frequent words")}</div>'
    )


def _get_network(language_model: LanguageModel) -> ContextNetwork:
    """Return the network of a model that `train` has written."""
    return cast(ContextNetwork, language_model.network)


def _get_corpus(language_model: LanguageModel) -> EncodedCorpus:
    """Return the text of a model that `train` has written."""
    return cast(EncodedCorpus, language_model.corpus)


def _has_letter(word: str) -> bool:
    return any(map(str.isalpha, word))
