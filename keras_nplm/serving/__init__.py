"""The way out: a SavedModel for TF Serving, a LiteRT or ONNX file for a phone, and what describes them."""

from keras_nplm.serving.on_device import export_litert, export_onnx
from keras_nplm.serving.saved_model import export_saved_model

__all__ = ["export_litert", "export_onnx", "export_saved_model"]
