"""Checks of the arguments that hold lines of text, sentences of tokens, token ids or a seed."""

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from numbers import Integral
from typing import Any

from keras_nplm.io.errors import check_argument

_FIXES = {
    str: "put it into a list, or split it, as by `splitlines()`.",
    bytes: "decode it, as by `.decode('utf-8')`.",
    os.PathLike: "open the file, as by `open(path, encoding='utf-8')`.",
    Mapping: "pass its keys or its values.",
    Sequence: "join tokens by spaces, or pass lists of tokens where these are wanted.",
    Integral: "decode ids by `Vocabulary.decode`, or pass them where ids are wanted.",
}


def check_items(
    items: Any,
    argument: str = "lines",
    kind: Any = str,
    wanted: str = "a list or an iterator of strings",
) -> Iterator[Any]:
    """Check an argument that takes several items of a class, and iterate over them; one string or a
    dict is refused.
    """
    _check_is_several(items, argument, wanted)
    return _check_each(items, argument, kind, wanted)


def _check_is_several(items: Any, argument: str, wanted: str) -> None:
    is_one = isinstance(items, str | bytes | bytearray | os.PathLike | Mapping) or hasattr(
        items, "columns"
    )
    if isinstance(items, Iterable) and getattr(items, "ndim", 1) > 0 and not is_one:
        return  # without a description, which takes the time of a copy of all items
    check_argument(argument, False, wanted, _describe(items), _find_fix(items))


def _check_each(items: Iterable, argument: str, kind: Any, wanted: str) -> Iterator[Any]:
    for position, item in enumerate(items):
        if not isinstance(item, kind):
            fix = _find_fix(item) if kind is str else f"pass objects of the class {kind.__name__}."
            check_argument(
                argument, False, wanted, f"{_describe(item)} at position {position}", fix
            )
        yield item


def check_lines(lines: Any, argument: str = "lines") -> Iterator[str]:
    """Check an argument that takes lines of text as `check_items` does, and iterate over them
    without line ends.
    """
    return (line.rstrip("\r\n") for line in check_items(lines, argument))


def check_text(text: Any, argument: str) -> str:
    """Check an argument that takes one string."""
    if not isinstance(text, str):
        fix = "pass strings one by one."
        check_argument(argument, False, "one string", _describe(text), fix)
    return text


def check_sentences(sentences: Any, argument: str = "sentences") -> Iterator[Sequence[str]]:
    """Check an argument that takes sentences, which are lists of tokens, and iterate over them."""
    wanted = "a list or an iterator of sentences, each a list of tokens"
    _check_is_several(sentences, argument, wanted)
    for position, sentence in enumerate(sentences):
        if type(sentence) is list and {*map(type, sentence)} <= {str}:  # fast
            yield sentence
        else:
            yield list(check_items(sentence, f"{argument}[{position}]", wanted="a list of tokens"))


def _describe(value: Any) -> str:
    if isinstance(value, Integral) and not isinstance(value, bool):
        return "token ids"
    return f"{value!r:.80} ({type(value).__name__})"


def _find_fix(value: Any) -> str:
    return next(
        (fix for kind, fix in _FIXES.items() if isinstance(value, kind)), "remove it or replace it."
    )


def fold_seed(seed: int) -> int:
    """Map a seed, any integer, to 31 bits: seeds from 0 to 2**31 - 1 are kept, and others are
    hashed.
    """
    check_argument("seed", isinstance(seed, Integral), "an integer", repr(seed), "use seed=0.")
    if 0 <= seed < 1 << 31:
        return int(seed)
    return int.from_bytes(hashlib.sha256(str(int(seed)).encode()).digest()[:4], "big") >> 1
