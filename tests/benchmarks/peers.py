"""Peers that score and serve, in their own processes: KenLM, LiteRT, ONNX Runtime.

None imports TensorFlow.
"""

import functools
import importlib

import numpy as np

from tests.benchmarks.contenders import Contender, time_requests


def build_kenlm(arpa: str, sentences: list[str]) -> Contender:
    """Return the scoring of the tokens of sentences, and of their ends."""
    model = importlib.import_module("kenlm").Model(arpa)

    def work() -> int:
        return sum(1 for sentence in sentences for _ in model.full_scores(sentence))

    return Contender("KenLM", work)


def build_kenlm_states(arpa: str, columns: list[list[str]]) -> Contender:
    """Return a decoder: each column of words extends all hypotheses by a word."""
    kenlm = importlib.import_module("kenlm")
    model = kenlm.Model(arpa)

    def work() -> int:
        states = [kenlm.State()] * len(columns[0])
        model.BeginSentenceWrite(states[0])
        for words in columns:
            after = [kenlm.State() for _ in words]
            for before, word, extended in zip(states, words, after, strict=True):
                model.BaseScore(before, word, extended)
            states = after
        return len(columns) * len(states)

    return Contender("KenLM", work)


def build_litert(path: str, context_ids: np.ndarray) -> Contender:
    """Return requests to a LiteRT file on one core, for the log-probabilities after contexts [B,
    n-1].
    """
    interpreter = importlib.import_module("ai_edge_litert.interpreter").Interpreter(
        path, num_threads=1
    )
    run = functools.partial(interpreter.get_signature_runner(), context_ids=context_ids)
    return time_requests("LiteRT", run, len(context_ids))


def build_onnx(path: str, context_ids: np.ndarray) -> Contender:
    """Return requests to an ONNX file, as `build_litert`."""
    runtime = importlib.import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    session = runtime.InferenceSession(path, options)
    run = functools.partial(session.run, None, {"context_ids": context_ids})
    return time_requests("ONNX Runtime", run, len(context_ids))
