"""Parse JSON text of untrusted files: its size, its depth and the length of its strings are limited."""

import json

from keras_nplm.io.errors import InputError

MAX_JSON_BYTES = 1 << 24  # of a JSON file; the largest lists the shards of a corpus, about 5 MB for a terabyte of text
_MAX_DEPTH = 64
_RESTORE = "Fix: restore the file, or run the command that wrote it again."


def check_json_size(source: object, size: int, most: int = MAX_JSON_BYTES) -> None:
    """Check the size of JSON text before it is read: parsed, it takes up to 30 times as much memory.

    Args:
        source: name of the text, for the error.
        size: its number of bytes.
        most: the largest number of bytes.

    Raises:
        InputError: the text is larger.
    """
    if size > most:
        raise InputError(f"{source} must have at most {most:,} bytes. Received: {size:,}. {_RESTORE}")


def parse_json(source: object, text: str, longest: int = MAX_JSON_BYTES) -> dict:
    """Parse a JSON object.

    Args:
        source: name of the text, for the error.
        text: the text.
        longest: the largest number of characters in a string, and of items in a list or an object.

    Raises:
        InputError: the text is no valid JSON or holds no object, is nested deeper than 64 levels, or has a longer
            string, list or object.

    Example:

    >>> parse_json("config.json", '{"order": 5}')
    {'order': 5}
    >>> parse_json("config.json", '{"name": "NPLM"}', longest=3)
    Traceback (most recent call last):
    keras_nplm.io.errors.InputError: A string or list in config.json must be at most 3 long. Received: 4. Fix: restore
    the file, or run the command that wrote it again.
    """
    try:
        value = json.loads(text)
    except RecursionError as error:
        raise _depth_error(source) from error
    except ValueError as error:
        reason = f"line {error.lineno}: {error.msg}" if isinstance(error, json.JSONDecodeError) else str(error)
        raise InputError(f"{source} is not valid JSON ({reason}). {_RESTORE}") from error
    if not isinstance(value, dict):
        raise InputError(f"{source} must hold a JSON object. Received: {type(value).__name__}. {_RESTORE}")
    level, depth = [value], 0
    while level:  # level by level: a deep value would exhaust the stack of a recursion
        depth += 1
        if depth > _MAX_DEPTH:
            raise _depth_error(source)
        parts = [part for one in level for part in ((*one, *one.values()) if isinstance(one, dict) else one)]
        parts = [part for part in parts if isinstance(part, str | list | dict)]
        if (most := max(map(len, parts), default=0)) > longest:
            raise InputError(
                f"A string or list in {source} must be at most {longest:,} long. Received: {most:,}. {_RESTORE}"
            )
        level = [part for part in parts if not isinstance(part, str)]
    return value


def _depth_error(source: object) -> InputError:
    return InputError(f"{source} must be nested at most {_MAX_DEPTH} levels deep. Received: more levels. {_RESTORE}")
