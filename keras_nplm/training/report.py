"""The page that tells of a training run: its curves, its perplexity beside an n-gram model's, and what it learned."""

import os

import numpy as np

from keras_nplm.data.tokenizers import get_separator, join_tokens
from keras_nplm.data.vocabulary import EOS_ID, SPECIALS
from keras_nplm.io.files import replace_file
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.language_model.word_vectors import word_map
from keras_nplm.models.evaluation import evaluate, format_perplexity
from keras_nplm.models.ngrams import kneser_ney
from keras_nplm.models.nplm import NPLM
from keras_nplm.training.charts import (
    STYLE,
    bar_chart,
    escaped,
    line_chart,
    word_chart,
)
from keras_nplm.training.configuration import train_command

_BASELINE_TOKENS = 20_000_000  # of training text at most: the n-gram model is estimated in memory
_CONTEXTS, _CONTEXT_WORDS, _NEXT_WORDS = 4, 4, 6
_TEXTS, _TEXT_WORDS, _TEMPERATURE = 3, 40, 0.7
_NEIGHBOURS_OF, _NEIGHBOURS = 20, 5
_WORD_LETTERS = 5  # and more, of a word whose neighbours are shown
_MAP_WORDS = 250

_STYLE = """
:root { color-scheme: light dark; --paper: #fffefb; --wash: #f4f2ea; }
@media (prefers-color-scheme: dark) { :root { --paper: #171715; --wash: #22211e; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2.5rem 1.25rem 4rem; max-width: 66rem; color: var(--ink); background: var(--paper);
  font: 1.0625rem/1.55 Charter, "Iowan Old Style", Palatino, "Palatino Linotype", Georgia, "Liberation Serif", serif; }
h1 { margin: 0; font-size: 1.9rem; font-weight: 600; line-height: 1.2; overflow-wrap: anywhere; }
h2 { margin: 3rem 0 .5rem; padding-top: .6rem; border-top: 1px solid var(--rule); font-size: 1.3rem; font-weight: 600; }
p { margin: .4rem 0 1rem; max-width: 44rem; } .soft, small, thead, summary { color: var(--soft); }
pre { margin: 1rem 0; padding: .7rem .9rem; background: var(--wash); white-space: pre-wrap; overflow-wrap: anywhere;
  font: .85em/1.5 ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: .5rem 0 1rem; }
th, td { padding: .25rem .8rem .25rem 0; text-align: right; font-weight: normal; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; } thead th { border-bottom: 1px solid var(--rule); }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: .8rem 1.2rem; }
.facts dt { color: var(--soft); font-size: .85rem; } .facts dd { margin: 0; overflow-wrap: anywhere; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(24rem, 100%), 1fr)); gap: 1.2rem 2.4rem; }
.scroll { overflow-x: auto; } .scroll svg { min-width: 60rem; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(14rem, 100%), 1fr)); gap: 1.4rem 2rem;
  margin-bottom: 1.8rem; }
h3 { margin: 0 0 .3rem; font-size: 1rem; font-style: italic; font-weight: normal; overflow-wrap: anywhere; }
.next { display: grid; grid-template-columns: minmax(0, 5.5rem) 1fr 2.6rem; gap: 0 .5rem; align-items: center; }
.next i { height: .55rem; min-width: 1px; background: var(--s2); }
.next bdi { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; } .next small { text-align: right; }
blockquote { margin: 0 0 1.2rem; padding-left: 1rem; border-left: 3px solid var(--rule); white-space: pre-line;
  max-width: 44rem; overflow-wrap: anywhere; }
.near { margin: 0; columns: 2 24rem; column-gap: 2.4rem; } .near div { break-inside: avoid; padding: .15rem 0; }
.near dt { display: inline; font-weight: 600; }
.near dd { display: inline; margin: 0 0 0 .5rem; overflow-wrap: anywhere; }
small { font-variant-numeric: tabular-nums; } summary { cursor: pointer; }
"""


def write_run_report(path: str | os.PathLike, language_model: LanguageModel, config: dict, metrics: dict) -> None:
    """Write one HTML file that needs no other: figures, charts, sample texts, near words and a map of the words.

    Args:
        path: the file.
        language_model: a trained network with its encoded corpus.
        config: what `config.json` of the model directory holds.
        metrics: what `metrics.json` holds; no perplexity of the network is computed again.

    Raises:
        InputError: the encoded corpus cannot be read.
        RunError: the file cannot be written.
    """
    sections = [
        _head(language_model, config, metrics),
        _curves(config, metrics),
        _baseline(language_model, metrics),
        _continuations(language_model),
        _neighbours(language_model),
        _map(language_model, language_model.corpus.frequencies()),
    ]
    page = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escaped(config['corpus'])}: a neural probabilistic language model</title>\n"
        f"<style>{STYLE}{_STYLE}</style>\n</head>\n<body>\n" + "\n".join(sections) + "\n</body>\n</html>\n"
    )
    with replace_file(path) as temporary:
        temporary.write_text(page, encoding="utf-8")


def _head(language_model: LanguageModel, config: dict, metrics: dict) -> str:
    command = train_command(config)
    splits = language_model.corpus.splits
    facts = {
        "corpus": config["corpus"],
        **{f"{split} tokens": f"{splits[split]['tokens']:,}" for split in ("train", "validation", "test")},
        "vocabulary |V|": f"{len(language_model.vocabulary):,}",
        "parameters": f"{metrics['parameters']:,}",
        "epochs": f"{len(metrics['history'])}, the best {metrics['best_epoch']}",
        "seconds": f"{metrics['seconds']:,}",
        "n-grams a second": f"{metrics['ngrams_per_second']:,}",
    }
    listed = "".join(f"<div><dt>{escaped(name)}</dt><dd>{escaped(fact)}</dd></div>" for name, fact in facts.items())
    shape = _shape(language_model.network)
    made = f"<pre>{escaped(command)}</pre>" if command else ""
    return (
        f'<h1>{escaped(config["corpus"])}</h1>\n<p class="soft">A neural probabilistic language model, {shape}, '
        f'{escaped(config["output_layer"])} output.</p>\n{made}\n<dl class="facts">{listed}</dl>'
    )


def _shape(network: NPLM) -> str:
    """The sizes of a network, and what it has beyond the paper's."""
    parts = [f"n = {network.order}", f"m = {network.embedding_dim}", f"h = {network.hidden_units}"]
    if averages := getattr(network.embed, "averages_after", ()):
        parts.append(f"words beyond {', '.join(map(str, averages))} as averages")
    hidden = network.hidden
    activation, blocks = getattr(hidden, "activation", "tanh"), getattr(hidden, "residual_blocks", 0)
    parts += [activation] if activation != "tanh" else []
    parts += [f"residual blocks: {blocks}"] if blocks else []
    parts += ["layer normalisation"] if getattr(hidden, "layer_norm", False) else []
    return ", ".join(parts)


def _curves(config: dict, metrics: dict) -> str:
    history = metrics["history"]
    named = {"training": "train_perplexity", "validation": "validation_perplexity"}
    series = {name: [epoch[key] for epoch in history] for name, key in named.items() if key in history[0]}
    rates = {"learning rate": [epoch["learning_rate"] for epoch in history]}
    charts = line_chart("perplexity by epoch", series, "perplexity", marked=metrics["best_epoch"])
    charts += line_chart("learning rate by epoch", rates, "learning rate at the epoch’s end")
    loss = next(key for key in history[0] if key.endswith("loss"))
    columns = {"epoch": "epoch", loss.replace("_", " "): loss} | {name: named[name] for name in series}
    columns |= {"learning rate": "learning_rate", "seconds": "seconds"}
    rows = [[f"{epoch[key]:.5g}" for key in columns.values()] for epoch in history]
    if len(series) == 2:
        said = "Training perplexity is taken in the course of an epoch, with dropout; validation at its end, without."
    else:
        said = "A sampled loss is no likelihood, so that there is no training perplexity."
    if config.get("shortlist_size"):
        said += " These are the network’s own, over the words of its short-list; those below are the whole model’s."
    return (
        f"<h2>Learning curves</h2>\n<p>{said}</p>\n"
        f'<div class="pair">{charts}</div>\n'
        f'<details><summary>The figures</summary><div class="scroll">{_table(list(columns), rows)}</div></details>'
    )


def _baseline(language_model: LanguageModel, metrics: dict) -> str:
    order, boundary = language_model.network.ngram_order, language_model.boundary
    whole = "network" if language_model.model is language_model.network else "network with its short-list"
    models, splits = {whole: metrics}, ("validation", "test")
    tokens = language_model.corpus.splits["train"]["tokens"]
    if tokens <= _BASELINE_TOKENS:
        ngrams = kneser_ney(language_model.corpus.ids("train"), len(language_model.vocabulary), order, boundary)
        figures = {split: evaluate(ngrams, language_model.corpus.ids(split)) for split in splits}
        models[f"KN {order}-gram"] = figures
        ratio = metrics["test"]["perplexity"] / figures["test"]["perplexity"]
        said = (
            f"The network’s test perplexity is {ratio:.3f} times that of an interpolated modified Kneser–Ney (KN) "
            f"model of order {order}, estimated from the same text."
        )
    else:
        said = f"No n-gram model stands beside it: one of {tokens:,} training tokens would take too much memory."
    counted = "words and &lt;/s&gt;" if boundary == "sentence" else "words, without sentence ends"
    rows = [
        [
            name,
            *(f"{model[split]['perplexity']:.2f}" for split in splits),
            format_perplexity(model["test"]["perplexity_without_unk"]),
        ]
        for name, model in models.items()
    ]
    table = _table(["", *splits, "test without <unk>"], rows)
    bars = {
        f"{split} perplexity": {name: model[split]["perplexity"] for name, model in models.items()} for split in splits
    }
    return (
        f"<h2>Perplexity</h2>\n<p>{said} Exact, per predicted token ({counted}); lower is better.</p>\n"
        f'<div class="pair"><div class="scroll">{table}</div>{bar_chart("perplexity of the models", bars)}</div>'
    )


def _table(header: list[str], rows: list[list[str]]) -> str:
    head = "".join(f"<th>{escaped(cell)}</th>" for cell in header)
    body = "".join("<tr>" + "".join(f"<td>{escaped(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _contexts(language_model: LanguageModel) -> list[str]:
    """The first words, all with letters, of sentences that stand evenly spread in the validation text."""
    ids, words = language_model.corpus.ids("validation"), language_model.vocabulary.words
    plain = np.array([place >= len(SPECIALS) and _has_letter(word) for place, word in enumerate(words)])
    starts = np.append(0, np.flatnonzero(ids == EOS_ID) + 1)
    starts = starts[starts + _CONTEXT_WORDS <= len(ids)]
    openings = ids[starts[:, None] + np.arange(_CONTEXT_WORDS)]  # [S, W]
    openings = openings[plain[openings].all(axis=1)]
    chosen = openings[np.unique(np.linspace(0, len(openings) - 1, _CONTEXTS).astype(int))] if len(openings) else []
    decode, name = language_model.vocabulary.decode, language_model.tokenizer_name
    return [join_tokens(decode(opening), name) for opening in chosen] or [""]


def _continuations(language_model: LanguageModel) -> str:
    contexts = _contexts(language_model)
    proposed = [language_model.next_words(context, _NEXT_WORDS) for context in contexts]
    most = max(probability for words in proposed for _, probability in words)
    cards = [
        f'<div><h3><bdi>{escaped(context)}</bdi>&nbsp;…</h3><div class="next">'
        + "".join(
            f'<bdi>{escaped(word)}</bdi><i style="width:{100 * p / most:.1f}%"></i><small>{p:.3f}</small>'
            for word, p in words
        )
        + "</div></div>"
        for context, words in zip(contexts, proposed, strict=True)
    ]
    texts = [
        (prompt, language_model.generate(prompt, _TEXT_WORDS, seed=seed, temperature=_TEMPERATURE))
        for seed, prompt in zip(range(1, _TEXTS + 1), (contexts * _TEXTS)[:_TEXTS], strict=True)
    ]
    between = get_separator(language_model.tokenizer_name)
    return (
        "<h2>Continuations</h2>\n<p>The most probable words after the beginnings of sentences of the validation text; "
        f'P(w | context) beside each.</p>\n<div class="cards">{"".join(cards)}</div>\n'
        f"<p>Texts drawn word by word, seeds 1 to {_TEXTS}, temperature {_TEMPERATURE}:</p>\n"
        + "\n".join(
            f'<blockquote dir="auto"><em>{escaped(p)}</em>{between}{escaped(text)}</blockquote>' for p, text in texts
        )
    )


def _neighbours(language_model: LanguageModel) -> str:
    entries = [
        f"<div><dt><bdi>{escaped(word)}</bdi></dt><dd>"
        + ", ".join(
            f"<bdi>{escaped(near)}</bdi> <small>{cosine:.2f}</small>"
            for near, cosine in language_model.nearest(word, _NEIGHBOURS)
        )
        + "</dd></div>"
        for word in _content_words(language_model.vocabulary.words)
    ]
    return (
        "<h2>Nearest words</h2>\n<p>By the cosine of their feature vectors (rows of C), for the most frequent words of "
        f"{_WORD_LETTERS} letters or more below the first hundredth of the vocabulary.</p>\n"
        f'<dl class="near">{"".join(entries)}</dl>'
    )


def _content_words(words: list[str]) -> list[str]:
    """Frequent words that mean something by themselves: long ones, below the first hundredth of the vocabulary.

    Where there are too few, shorter ones follow.

    Example:

    >>> _content_words([*SPECIALS, "the", ",", "language", "a", "neural"])
    ['language', 'neural', 'the', 'a']
    """
    lettered = [word for word in words[len(SPECIALS) + len(words) // 100 :] if _has_letter(word)]
    return sorted(lettered, key=lambda word: sum(map(str.isalpha, word)) < _WORD_LETTERS)[:_NEIGHBOURS_OF]


def _has_letter(word: str) -> bool:
    return any(map(str.isalpha, word))


def _map(language_model: LanguageModel, counts: np.ndarray) -> str:
    words = language_model.vocabulary.words
    lettered = [place for place in range(len(SPECIALS), len(words)) if _has_letter(words[place])]
    ids = lettered[:_MAP_WORDS] or list(range(len(SPECIALS), len(words)))[:_MAP_WORDS]
    places = word_map(language_model.network.embed.C.numpy()[ids])
    notes = [f"{counts[place]:,} times in the training text" for place in ids]
    chart = word_chart("words in the plane", places, [words[place] for place in ids], notes)
    return (
        f"<h2>A map of the words</h2>\n<p>The {len(ids)} most frequent words, laid out by t-SNE so that words of like "
        f'feature vectors lie together. Directions mean nothing.</p>\n<div class="scroll">{chart}</div>'
    )
