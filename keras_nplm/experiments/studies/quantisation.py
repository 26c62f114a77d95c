"""Study `quantisation`: the cost of 8-bit weights: perplexity and log-probabilities of LiteRT and ONNX files.

`keras-nplm export` writes the files, without and with `--quantise`. Each reads the first contexts of the validation
text. Differences are in nats, between the file and the model with 32-bit weights: of ln P of the tokens of the text,
and of ln P of every word after every context. Special tokens other than `<unk>` and `</s>` do not count.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from keras_nplm.data.corpora import open_corpus
from keras_nplm.data.encoding import encode_sentences
from keras_nplm.data.ngram_arrays import extract_ngrams
from keras_nplm.data.vocabulary import BOS_ID, PAD_ID
from keras_nplm.experiments.rows import Row
from keras_nplm.io.extras import import_extra
from keras_nplm.io.markdown import markdown_table
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.models.base import row_blocks
from keras_nplm.serving import export_litert, export_onnx

ROWS = (Row("brown-nce-quick", "Brown, `brown-nce-quick`", "train --config brown-nce-quick"),)
_TOKENS = 20_000  # of each validation text
_BLOCK_NUMBERS = 1 << 22  # log-probabilities that are computed at a time
_FORMATS = ("LiteRT", "LiteRT, 8 bits", "ONNX", "ONNX, 8 bits")


def measure(rows: Path) -> dict:
    """Return perplexities, differences and file sizes for the reference model and for each row."""
    reference = LanguageModel.from_preset("reference")
    ids = encode_sentences(open_corpus("python_reference").sentences("validation"), reference.vocabulary)
    report = [measure_files("Python reference, preset `reference`", reference, ids)]
    for row in ROWS:
        language_model = LanguageModel.load(rows / row.name)
        report.append(measure_files(row.title, language_model, language_model.corpus.ids("validation")))
    return {"models": report}


def measure_files(title: str, language_model: LanguageModel, ids: np.ndarray, tokens: int = _TOKENS) -> dict:
    """Return the figures of the exported files of a network on a text.

    Args:
        title: name of the model and its text.
        language_model: a language model with an NPLM.
        ids: int32 [T], the text.
        tokens: number of predicted tokens, the first of the text.
    """
    model = language_model.model
    ngrams = extract_ngrams(ids, model.order, language_model.boundary)[:tokens]
    contexts, targets = ngrams[:, :-1], ngrams[:, -1]
    blocks = list(row_blocks(len(ngrams), max(1, _BLOCK_NUMBERS // model.vocabulary_size)))
    log_prob = model.log_prob(contexts, targets).astype(np.float64)
    report = {"title": title, "tokens": len(targets), "perplexity": float(np.exp(-log_prob.mean())), "files": []}
    with tempfile.TemporaryDirectory() as directory:
        for format in _FORMATS:
            path, run = _export(language_model, format, Path(directory))
            found, largest, total = [], 0.0, 0.0
            for block in blocks:
                log_probs = run(np.ascontiguousarray(contexts[block], np.int32))
                found.append(log_probs[np.arange(len(log_probs)), targets[block]].astype(np.float64))
                difference = np.abs(np.delete(log_probs - model.next_log_probs(contexts[block]), [PAD_ID, BOS_ID], 1))
                largest, total = max(largest, float(difference.max())), total + float(difference.mean(axis=1).sum())
            difference = np.abs(np.concatenate(found) - log_prob)
            figures = {"format": format, "bytes": path.stat().st_size}
            figures["perplexity"] = float(np.exp(-np.concatenate(found).mean()))
            figures["tokens"] = {"mean": float(difference.mean()), "max": float(difference.max())}
            figures["words"] = {"mean": total / len(targets), "max": largest}
            report["files"].append(figures)
    return report


def _export(
    language_model: LanguageModel, format: str, directory: Path
) -> tuple[Path, Callable[[np.ndarray], np.ndarray]]:
    """Write a file of a format, and return its path and a function from contexts to log-probabilities."""
    quantise = format.endswith("8 bits")
    if format.startswith("LiteRT"):
        path, *_ = export_litert(language_model, directory / f"{quantise}.tflite", quantise=quantise)
        runtime = import_extra("ai_edge_litert.interpreter", "litert", "The study")
        runner = runtime.Interpreter(str(path), num_threads=1).get_signature_runner()
        return path, lambda contexts: runner(context_ids=contexts)["log_probs"]
    path, *_ = export_onnx(language_model, directory / f"{quantise}.onnx", quantise=quantise)
    session = import_extra("onnxruntime", "onnx", "The study").InferenceSession(str(path))
    return path, lambda contexts: session.run(None, {"context_ids": contexts})[0]


def format_report(report: dict) -> str:
    """Return a table with a row for each file."""
    header = ["model and text", "weights", "MB", "perplexity", "change", "ln P of the text: mean difference", "max"]
    header += ["ln P of all words: mean difference", "max"]
    rows = []
    for model in report["models"]:
        rows.append([f"{model['title']}, {model['tokens']:,} tokens", "Keras", "", f"{model['perplexity']:.3f}"])
        rows[-1] += [""] * 5
        for file in model["files"]:
            change = file["perplexity"] / model["perplexity"] - 1
            cells = [
                "",
                file["format"],
                f"{file['bytes'] / 1e6:.2f}",
                f"{file['perplexity']:.3f}",
                f"{round(change, 4) + 0:+.2%}",
            ]
            rows.append([*cells, *(f"{file[of][name]:.4f}" for of in ("tokens", "words") for name in ("mean", "max"))])
    return markdown_table(header, rows)
