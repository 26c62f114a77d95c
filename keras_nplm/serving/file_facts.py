"""What a LiteRT or ONNX file says of itself: `FILE.json` beside it, and the metadata inside."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.lite.python import schema_py_generated as litert_schema
from tensorflow.lite.tools import flatbuffer_utils

import keras_nplm
from keras_nplm.data.boundary import padding_id
from keras_nplm.data.corpus import HELD_OUT
from keras_nplm.data.ids import EOS_ID, UNK_ID
from keras_nplm.data.tokenizers.base import Tokenizer
from keras_nplm.language_model.codec import TextCodec
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.models.base import NextWordModel

METADATA_NAME = "keras_nplm"  # of the entry in a LiteRT file


def name_facts_file(target: Path) -> Path:
    """Return the path of the JSON file beside a LiteRT or ONNX file."""
    return target.with_name(f"{target.name}.json")


def describe_codec(codec: TextCodec, order: int) -> dict[str, Any]:
    """Return what a program must know to turn a text into a context of ids."""
    return {
        "context_length": order - 1,
        "padding_id": padding_id(codec.boundary),
        "unknown_id": UNK_ID,
        "end_of_sentence_id": EOS_ID if codec.predicts_end else None,
        "first_proposed_id": int(codec.proposed_ids[0]),
        "vocabulary_size": len(codec.vocabulary),
        "boundary": codec.boundary,
        "tokenizer": describe_tokenizer(codec.tokenizer),
    }


def describe_tokenizer(tokenizer: Tokenizer) -> dict[str, Any]:
    sentences = [tokenizer.describe(), *tokenizer.describe_steps()]
    return {
        "name": tokenizer.name,
        "kind": tokenizer.kind,
        "steps": list(tokenizer.steps),
        "tokens_are_words": tokenizer.tokens_are_words,
        "separator": tokenizer.separator,
        "space": tokenizer.space,
        "description": " ".join(filter(None, sentences)),
    }


def describe_tensor(
    name: str, spec: tf.TensorSpec, sizes: Mapping[int, str], text: str
) -> dict[str, Any]:
    """Return the name, dtype, shape and meaning of an input or output.

    `sizes` names the dimensions of any size by their place.
    """
    shape = [sizes[place] if size is None else size for place, size in enumerate(spec.shape)]
    return {"name": name, "dtype": spec.dtype.name, "shape": shape, "description": text}


def find_perplexities(
    language_model: LanguageModel, model: NextWordModel, metrics: Mapping[str, Any]
) -> dict[str, float]:
    """Return the perplexity of a model on the held-out splits, as far as it can be known.

    It is read from `metrics`, the content of `metrics.json`, for the whole model. For a part of it
    the splits of the training corpus are read. A perplexity that is not finite is left out.
    """
    perplexities = {}
    if model is language_model.model:
        for split in HELD_OUT:
            if split in metrics:
                perplexities[split] = metrics[split]["perplexity"]
    elif language_model.corpus is not None:
        alone = language_model.replace_model(model)
        for split in HELD_OUT:
            if split not in language_model.corpus.splits:
                continue
            ids = language_model.corpus.ids(split)
            if len(ids):
                perplexities[split] = float(alone.evaluate(ids)["perplexity"])
    return {split: value for split, value in perplexities.items() if math.isfinite(value)}


def describe_package() -> str:
    return f"keras_nplm {keras_nplm.__version__}"


def add_to_onnx(model: Any, facts: Mapping[str, Any]) -> None:
    """Write facts into an ONNX model: as properties, those that are no text in JSON, and as its
    description.
    """
    model.doc_string = facts["description"]
    for name, value in facts.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        model.metadata_props.add(key=name, value=text)


def add_to_litert(content: bytes, facts: Mapping[str, Any]) -> bytes:
    """Return the content of a LiteRT file with facts: as JSON in the metadata, and as its
    description.
    """
    model = flatbuffer_utils.convert_bytearray_to_object(content)
    model.description = facts["description"]
    buffer = litert_schema.BufferT()
    buffer.data = json.dumps(facts, ensure_ascii=False).encode()
    entry = litert_schema.MetadataT()
    entry.name = METADATA_NAME
    entry.buffer = len(model.buffers)
    model.buffers.append(buffer)
    model.metadata.append(entry)
    return bytes(flatbuffer_utils.convert_object_to_bytearray(model))
