"""HTML report of a training run: learning curves, perplexity against Kneser-Ney, samples and a map of the words."""

import os

import numpy as np

from keras_nplm.data.tokenizers import get_separator, join_tokens
from keras_nplm.data.vocabulary import EOS_ID, SPECIALS, Vocabulary
from keras_nplm.io.files import replace_file
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.language_model.word_vectors import word_map
from keras_nplm.models.evaluation import evaluate_split, format_perplexity
from keras_nplm.models.ngrams import kneser_ney
from keras_nplm.models.nplm import NPLM
from keras_nplm.training.charts import (
    STYLE,
    draw_bars,
    draw_lines,
    draw_words,
    escape_html,
    render_svg,
)
from keras_nplm.training.configuration import train_command

_MAX_BASELINE_TOKENS = 20_000_000  # of training text: the n-gram model is estimated in memory
_CONTEXTS, _CONTEXT_WORDS, _NEXT_WORDS = 4, 4, 6
_TEXTS, _TEXT_WORDS, _TEMPERATURE = 3, 40, 0.7
_NEIGHBOURS_OF, _NEIGHBOURS = 20, 5
_MIN_LETTERS = 5  # of a word whose nearest words are listed
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
.next i { height: .55rem; min-width: 1px; background: var(--network); }
.next bdi { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; } .next small { text-align: right; }
blockquote { margin: 0 0 1.2rem; padding-left: 1rem; border-left: 3px solid var(--rule); white-space: pre-line;
  max-width: 44rem; overflow-wrap: anywhere; }
.near { margin: 0; columns: 2 24rem; column-gap: 2.4rem; } .near div { break-inside: avoid; padding: .15rem 0; }
.near dt { display: inline; font-weight: 600; }
.near dd { display: inline; margin: 0 0 0 .5rem; overflow-wrap: anywhere; }
small { font-variant-numeric: tabular-nums; } summary { cursor: pointer; }
"""


def write_run_report(path: str | os.PathLike, language_model: LanguageModel, config: dict, metrics: dict) -> None:
    """Write a self-contained HTML report of a training run.

    Args:
        path: the file to write.
        language_model: a trained network with its encoded corpus.
        config: the content of `config.json` in the model directory.
        metrics: the content of `metrics.json`. The network is not evaluated again.

    Raises:
        InputError: the encoded corpus cannot be read.
        RunError: the file cannot be written.
    """
    sections = [
        _describe_run(language_model, config, metrics),
        _show_curves(config, metrics),
        _compare_with_ngrams(language_model, metrics),
        _show_continuations(language_model),
        _list_nearest_words(language_model),
        _map_words(language_model, language_model.corpus.frequencies()),
    ]
    page = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape_html(config['corpus'])}: a neural probabilistic language model</title>\n"
        f"<style>{STYLE}{_STYLE}</style>\n</head>\n<body>\n" + "\n".join(sections) + "\n</body>\n</html>\n"
    )
    with replace_file(path) as temporary:
        temporary.write_text(page, encoding="utf-8")


def _describe_run(language_model: LanguageModel, config: dict, metrics: dict) -> str:
    command = train_command(config)
    splits = language_model.corpus.splits
    facts = {
        "corpus": config["corpus"],
        **{f"{split} tokens": _describe_tokens(counts, language_model.boundary) for split, counts in splits.items()},
        "vocabulary |V|": f"{len(language_model.vocabulary):,}",
        "parameters": f"{metrics['parameters']:,}",
        "epochs": f"{len(metrics['history'])}, the best {metrics['best_epoch']}",
        "seconds": f"{metrics['seconds']:,}",
        "n-grams per second": f"{metrics['ngrams_per_second']:,}",
    }
    items = "".join(
        f"<div><dt>{escape_html(name)}</dt><dd>{escape_html(fact)}</dd></div>" for name, fact in facts.items()
    )
    command_line = f"<pre>{escape_html(command)}</pre>" if command else ""
    return (
        f'<h1>{escape_html(config["corpus"])}</h1>\n<p class="soft">A neural probabilistic language model: '
        f"{_describe_network(language_model.network)}, {escape_html(config['output_layer'])} output.</p>\n"
        f'{command_line}\n<dl class="facts">{items}</dl>'
    )


def _describe_tokens(counts: dict, boundary: str) -> str:
    """Describe the predicted tokens of a split, as perplexities count them.

    Example:

    >>> _describe_tokens({"tokens": 6246, "sentences": 280, "unk_tokens": 422}, "sentence")
    '6,526, of these 280 </s> and 422 <unk>'
    """
    ends = counts["sentences"] if boundary == "sentence" else 0
    special = ([f"{ends:,} </s>"] if ends else []) + [f"{counts['unk_tokens']:,} <unk>"]
    return f"{counts['tokens'] + ends:,}, of these {' and '.join(special)}"


def _describe_network(network: NPLM) -> str:
    """Sizes of a network, and its layers beyond the paper's."""
    parts = [f"n = {network.order}", f"m = {network.embedding_dim}", f"h = {network.hidden_units}"]
    if averages := getattr(network.embed, "averages_after", ()):
        parts.append(f"averaged context after words {', '.join(map(str, averages))}")
    hidden = network.hidden
    activation, blocks = getattr(hidden, "activation", "tanh"), getattr(hidden, "residual_blocks", 0)
    parts += [activation] if activation != "tanh" else []
    parts += [f"residual blocks: {blocks}"] if blocks else []
    parts += ["layer normalisation"] if getattr(hidden, "layer_norm", False) else []
    return ", ".join(parts)


def _show_curves(config: dict, metrics: dict) -> str:
    history = metrics["history"]
    keys = {"training": "train_perplexity", "validation": "validation_perplexity"}
    series = {name: [epoch[key] for epoch in history] for name, key in keys.items() if key in history[0]}
    rates = {"learning rate": [epoch["learning_rate"] for epoch in history]}
    perplexity = draw_lines(series, "perplexity", marked=metrics["best_epoch"])
    learning_rate = draw_lines(rates, "learning rate at the end of the epoch")
    charts = render_svg(perplexity, "perplexity by epoch") + render_svg(learning_rate, "learning rate by epoch")
    loss = next(key for key in history[0] if key.endswith("loss"))
    columns = {"epoch": "epoch", loss.replace("_", " "): loss} | {name: keys[name] for name in series}
    columns |= {"learning rate": "learning_rate", "seconds": "seconds"}
    rows = [[f"{epoch[key]:.5g}" for key in columns.values()] for epoch in history]
    if len(series) == 2:
        note = (
            "Training perplexity is the mean over an epoch, with dropout. Validation perplexity is measured at the end "
            "of the epoch, without dropout."
        )
    else:
        note = "Training uses a sampled loss, so that the training perplexity is unknown."
    if config.get("shortlist_size"):
        note += (
            " These perplexities are of the network alone, over the words of its short-list. The table below shows the "
            "whole model."
        )
    return (
        f"<h2>Learning curves</h2>\n<p>{note}</p>\n"
        f'<div class="pair">{charts}</div>\n'
        f'<details><summary>Table of epochs</summary><div class="scroll">{_format_table(list(columns), rows)}</div>'
        "</details>"
    )


def _compare_with_ngrams(language_model: LanguageModel, metrics: dict) -> str:
    order, boundary = language_model.network.ngram_order, language_model.boundary
    is_network = language_model.model is language_model.network
    models, splits = {"network" if is_network else "network with short-list": metrics}, ("validation", "test")
    tokens = language_model.corpus.splits["train"]["tokens"]
    if tokens <= _MAX_BASELINE_TOKENS:
        ngrams = kneser_ney(language_model.corpus.ids("train"), len(language_model.vocabulary), order, boundary)
        corpus, spelling = language_model.corpus, language_model.spelling
        figures = {split: evaluate_split(ngrams, corpus, split, None, spelling) for split in splits}
        models[f"KN {order}-gram"] = figures
        ratio = metrics["test"]["perplexity"] / figures["test"]["perplexity"]
        note = (
            f"The network’s test perplexity is {ratio:.3f} times the perplexity of the Kneser–Ney (KN) model: "
            f"interpolated, modified, of order {order}, estimated from the same text."
        )
    else:
        note = f"Without a Kneser–Ney model: {tokens:,} training tokens would need too much memory."
    of = "; they are of the normalised text" if metrics["test"].get("normalised") else ""
    predicted = "words and &lt;/s&gt;" if boundary == "sentence" else "words, without sentence ends"
    rows = [
        [
            name,
            *(f"{model[split]['perplexity']:.2f}" for split in splits),
            format_perplexity(model["test"]["perplexity_without_unk"]),
            format_perplexity(model["test"].get("perplexity_per_word")),
            format_perplexity(model["test"].get("bits_per_character"), digits=3),
        ]
        for name, model in models.items()
    ]
    table = _format_table(["", *splits, "test without <unk>", "test per word", "bits per character"], rows)
    bars = {
        f"{split} perplexity": {name: model[split]["perplexity"] for name, model in models.items()} for split in splits
    }
    chart = render_svg(draw_bars(bars), "perplexity of the models")
    return (
        f"<h2>Perplexity</h2>\n<p>{note} Exact perplexity per predicted token ({predicted}); lower is better. "
        "“Without &lt;unk&gt;” leaves out &lt;unk&gt;, which stands for every word outside the vocabulary. The last "
        f"two columns are comparable between tokenizers{of}: they count characters, and words between spaces, and "
        "include the spelling of the words that are &lt;unk&gt;.</p>\n"
        f'<div class="pair"><div class="scroll">{table}</div>{chart}</div>'
    )


def _format_table(header: list[str], rows: list[list[str]]) -> str:
    head = "".join(f"<th>{escape_html(cell)}</th>" for cell in header)
    body = "".join("<tr>" + "".join(f"<td>{escape_html(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def choose_prompts(ids: np.ndarray, vocabulary: Vocabulary, tokenizer_name: str) -> list[str]:
    """Choose the first words of some sentences, evenly spread over a text; each word has a letter.

    Args:
        ids: int [T], the ids of the text, each sentence with its `</s>`.
        vocabulary: the vocabulary of the ids.
        tokenizer_name: the name of the tokenizer, which says how words are joined.

    Returns:
        up to four texts of four words, or one empty text if no sentence is long enough.

    Example:

    >>> choose_prompts(np.array([4, 5, 6, 5, 4, 3]), Vocabulary(["a", "b", "c"]), "words")
    ['a b c b']
    """
    words = vocabulary.words
    is_plain = np.array([place >= len(SPECIALS) and _has_letter(word) for place, word in enumerate(words)])
    starts = np.append(0, np.flatnonzero(ids == EOS_ID) + 1)
    starts = starts[starts + _CONTEXT_WORDS <= len(ids)]
    openings = ids[starts[:, None] + np.arange(_CONTEXT_WORDS)]  # [S, W]
    openings = openings[is_plain[openings].all(axis=1)]
    chosen = openings[np.unique(np.linspace(0, len(openings) - 1, _CONTEXTS).astype(int))] if len(openings) else []
    return [join_tokens(vocabulary.decode(opening), tokenizer_name) for opening in chosen] or [""]


def _show_continuations(language_model: LanguageModel) -> str:
    ids = language_model.corpus.ids("validation")
    contexts = choose_prompts(ids, language_model.vocabulary, language_model.tokenizer_name)
    proposals = [language_model.next_words(context, _NEXT_WORDS) for context in contexts]
    largest = max(probability for words in proposals for _, probability in words)
    cards = [
        f'<div><h3><bdi>{escape_html(context)}</bdi>&nbsp;…</h3><div class="next">'
        + "".join(
            f'<bdi>{escape_html(word)}</bdi><i style="width:{100 * p / largest:.1f}%"></i><small>{p:.3f}</small>'
            for word, p in words
        )
        + "</div></div>"
        for context, words in zip(contexts, proposals, strict=True)
    ]
    texts = [
        (prompt, language_model.generate(prompt, _TEXT_WORDS, seed=seed, temperature=_TEMPERATURE))
        for seed, prompt in zip(range(1, _TEXTS + 1), (contexts * _TEXTS)[:_TEXTS], strict=True)
    ]
    separator = get_separator(language_model.tokenizer_name)
    return (
        "<h2>Continuations</h2>\n<p>The most probable next words after the first words of validation sentences, with "
        f'P(w | context).</p>\n<div class="cards">{"".join(cards)}</div>\n'
        f"<p>Texts sampled word by word, with seeds 1 to {_TEXTS} and temperature {_TEMPERATURE}:</p>\n"
        + "\n".join(
            f'<blockquote dir="auto"><em>{escape_html(prompt)}</em>{separator}{escape_html(text)}</blockquote>'
            for prompt, text in texts
        )
    )


def _list_nearest_words(language_model: LanguageModel) -> str:
    entries = [
        f"<div><dt><bdi>{escape_html(word)}</bdi></dt><dd>"
        + ", ".join(
            f"<bdi>{escape_html(near)}</bdi> <small>{cosine:.2f}</small>"
            for near, cosine in language_model.nearest(word, _NEIGHBOURS)
        )
        + "</dd></div>"
        for word in _choose_content_words(language_model.vocabulary.words)
    ]
    return (
        "<h2>Nearest words</h2>\n<p>Nearest neighbours by the cosine of the word vectors (rows of C). The words listed "
        f"are frequent words of {_MIN_LETTERS} letters or more, without the most frequent hundredth.</p>\n"
        f'<dl class="near">{"".join(entries)}</dl>'
    )


def _choose_content_words(words: list[str]) -> list[str]:
    """Choose frequent content words: long words, without the most frequent hundredth; then shorter words.

    Example:

    >>> _choose_content_words([*SPECIALS, "the", ",", "language", "a", "neural"])
    ['language', 'neural', 'the', 'a']
    """
    candidates = [word for word in words[len(SPECIALS) + len(words) // 100 :] if _has_letter(word)]
    return sorted(candidates, key=lambda word: sum(map(str.isalpha, word)) < _MIN_LETTERS)[:_NEIGHBOURS_OF]


def _has_letter(word: str) -> bool:
    return any(map(str.isalpha, word))


def _map_words(language_model: LanguageModel, counts: np.ndarray) -> str:
    words = language_model.vocabulary.words
    candidates = [place for place in range(len(SPECIALS), len(words)) if _has_letter(words[place])]
    ids = candidates[:_MAP_WORDS] or list(range(len(SPECIALS), len(words)))[:_MAP_WORDS]
    figure = draw_words(word_map(language_model.network.embed.C.numpy()[ids]), [words[place] for place in ids])
    notes = {
        f"word{number}": f"{words[place]}: {counts[place]:,} times in the training text"
        for number, place in enumerate(ids)
    }
    chart = render_svg(figure, "map of the words", notes)
    return (
        f"<h2>Map of the words</h2>\n<p>A t-SNE map of the {len(ids)} most frequent words: words with similar vectors "
        f'are close together. Directions have no meaning.</p>\n<div class="scroll">{chart}</div>'
    )
