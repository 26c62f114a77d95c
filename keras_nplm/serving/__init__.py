"""Export of language models: SavedModel for TF Serving, LiteRT and ONNX for devices, a web page.

saved_model: a SavedModel version and the server's files. on_device: LiteRT and ONNX files.
device_graphs: models as graphs of the operations that these have. file_facts: what they say of
themselves. model_card: README of the export. examples: the inputs of its requests. web_page: the
page that runs a model in the browser, with the scripts in page/.
signatures: the served functions, one class each. text: tokenizer and vocabulary in the graph.
prefixes, word_search: completions in the graph. graph_model: base class of models as TensorFlow
graphs, and `build_graph`, which chooses the graph by the class of the model. ngram_graphs, graphs:
the graphs of n-gram models; of networks, mixtures, short-lists and hybrids.

To serve a class of models of your own, register its graph: see `GraphModel`.
"""

from keras_nplm.serving.graph_model import GraphModel, build_graph
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
