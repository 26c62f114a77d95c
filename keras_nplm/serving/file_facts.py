"""What a LiteRT or ONNX file says of itself: `FILE.json` beside it, and the metadata inside."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tensorflow.lite.python import schema_py_generated as litert_schema
from tensorflow.lite.tools import flatbuffer_utils

METADATA_NAME = "keras_nplm"  # of the entry in a LiteRT file


def name_facts_file(target: Path) -> Path:
    """Return the path of the JSON file beside a LiteRT or ONNX file."""
    return target.with_name(f"{target.name}.json")


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
