"""Export of language models: SavedModel for TF Serving, LiteRT and ONNX for devices, a web page.

Read first: graph_model, the base class of models as TensorFlow graphs, and `build_graph`, which
chooses the graph by the class of the model; signatures, the served functions, one class each.

- saved_model: a SavedModel version and the server's files. model_card: its README. examples: the
  inputs of its requests. warm_up: the requests that the server sends to itself. text: tokenizer
  and vocabulary in the graph. prefixes, word_search: completions in the graph.
- graphs, ngram_graphs: the graphs of networks, mixtures, short-lists, hybrids and n-gram models.
- on_device: LiteRT and ONNX files. file_facts: what they say of themselves.
- web_page, page: the page in the browser, its scripts.

To serve a class of models of your own, register its graph: see `GraphModel`. A function of your own
is a class in signatures.
"""

from keras_nplm.serving.graph_model import GraphModel
from keras_nplm.serving.graphs import build_graph  # and the graph of each class of models
from keras_nplm.serving.on_device import export_litert, export_onnx
from keras_nplm.serving.saved_model import export_saved_model
from keras_nplm.serving.web_page import export_page

__all__ = [
    "GraphModel",
    "build_graph",
    "export_litert",
    "export_onnx",
    "export_page",
    "export_saved_model",
]
