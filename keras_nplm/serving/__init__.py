"""Export of language models: SavedModel for TF Serving, LiteRT and ONNX for devices.

saved_model: a SavedModel version and the server's files. on_device: LiteRT and ONNX files.
signatures: the served functions. text, subwords: tokenizers and vocabulary lookup in the graph.
model_card: README of the export. graph_model: base class of models as TensorFlow graphs, with
shared tensor operations. ngram_graphs: n-gram models. graphs: networks, mixtures and short-lists;
`build_graph` chooses the class.
"""

from keras_nplm.serving.on_device import export_litert, export_onnx
from keras_nplm.serving.saved_model import export_saved_model

__all__ = ["export_litert", "export_onnx", "export_saved_model"]
