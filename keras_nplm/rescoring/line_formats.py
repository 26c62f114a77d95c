"""Formats of N-best lists: parse a line of Moses, Kaldi or TSV, and write a line with added
features.
"""

import math
import re
from collections.abc import Mapping

from keras_nplm.io.text import SPACES, split_fields

DECODER_SCORE = "score"  # the feature that holds the decoder's total, in formats that have one
SEPARATOR = "|||"
UNNAMED = "feature"
TSV_HEADER = ("id", "hypothesis")
# utterance and rank
_KALDI_LINE = re.compile(rf"[{SPACES}]*([^{SPACES}]+)-([0-9]+)(?:[{SPACES}]+(.*))?", re.DOTALL)

ParsedLine = tuple[str, str, dict[str, float]]  # id, hypothesis, features


def parse_number(text: str) -> float:
    """Parse a finite number."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or "_" in text:
        raise ValueError(f"{text.strip()[:40]!r} is not a finite number")
    return value


# An escaped ampersand is last, so that it starts no further escape.
_MOSES_ESCAPES = "&#124; | &lt; < &gt; > &apos; ' &quot; \" &#91; [ &#93; ] &amp; &".split()


def unescape_moses(text: str) -> str:
    for escape, character in zip(_MOSES_ESCAPES[::2], _MOSES_ESCAPES[1::2], strict=True):
        text = text.replace(escape, character)
    return text


def parse_moses_line(line: str) -> ParsedLine:
    """Parse `id ||| hypothesis ||| name= value … name= value … ||| score`; score and further fields
    are optional.
    """
    fields = [field.strip(SPACES) for field in line.split(SEPARATOR)]
    if len(fields) < 3 or not fields[0]:
        raise ValueError(
            f"expected `id {SEPARATOR} hypothesis {SEPARATOR} features {SEPARATOR} score`"
        )
    features = _parse_moses_features(fields[2])
    if len(fields) > 3:
        _set_feature(features, DECODER_SCORE, parse_number(fields[3]))
    return fields[0], unescape_moses(fields[1]), features


def _parse_moses_features(field: str) -> dict[str, float]:
    groups: dict[str, list[float]] = {}
    name = UNNAMED
    for token in split_fields(field):
        prefix, _, value = token.rpartition("=") if token[-1] != ":" else (token[:-1], ":", "")
        if not prefix:
            value = token
        elif prefix in groups:
            raise ValueError(f"the feature {prefix} occurs twice")
        else:
            name, groups[prefix] = prefix, []
        if value:
            groups.setdefault(name, []).append(parse_number(value))
    features: dict[str, float] = {}
    for name, values in groups.items():
        if not values:
            raise ValueError(f"the feature {name} has no value")
        is_single = len(values) == 1 and name != UNNAMED
        for number, value in enumerate(values, start=1):
            _set_feature(features, name if is_single else f"{name}.{number}", value)
    return features


def _set_feature(features: dict[str, float], name: str, value: float) -> None:
    if name in features:
        raise ValueError(f"the feature {name} occurs twice")
    features[name] = value


def extend_moses_line(line: str, new_features: Mapping[str, float], total: float | None) -> str:
    """Return a Moses line with more features.

    A total replaces the score, which is kept as a feature `NAME_before`.
    """
    fields = line.split(SEPARATOR)
    named = [f"{name}= {value:.6f}" for name, value in new_features.items()]
    if total is not None:
        if len(fields) > 3:
            named.append(
                f"{next(iter(new_features), DECODER_SCORE)}_before= {fields[3].strip(SPACES)}"
            )
        fields[3:4] = [f" {total:.6f}" + (" " if len(fields) > 4 else "")]
    if named:
        fields[2] = " ".join([fields[2].rstrip(SPACES), *named]) + (" " if len(fields) > 3 else "")
    return SEPARATOR.join(fields)


def parse_kaldi_line(line: str) -> ParsedLine:
    """Parse `utterance-k words`, hypothesis k of an utterance."""
    if not (match := _KALDI_LINE.fullmatch(line)):
        raise ValueError("expected `utterance-k words`, k the rank")
    return match[1], (match[3] or "").strip(SPACES), {}


def parse_kaldi_cost(line: str, key: str) -> float:
    """Parse the number of a line `key number` of a Kaldi archive."""
    fields = split_fields(line)
    if len(fields) != 2 or fields[0] != key:
        raise ValueError(f"expected `{key} number`, in the order of the hypotheses")
    return parse_number(fields[1])


def parse_tsv_line(line: str, columns: list[str]) -> ParsedLine:
    """Parse a line of tab-separated columns: id, hypothesis, features."""
    fields = line.split("\t")
    if len(fields) != len(columns):
        raise ValueError(f"expected {len(columns)} columns, as in line 1, and found {len(fields)}")
    if not (name := fields[0].strip(SPACES)):
        raise ValueError("the id is empty")
    return (
        name,
        fields[1].strip(SPACES),
        dict(zip(columns[2:], map(parse_number, fields[2:]), strict=True)),
    )


def name_tsv_columns(first_line: str) -> list[str]:
    """Return the names of TSV columns: a header line, or by default id, hypothesis, score, score.2,
    ….
    """
    fields = first_line.split("\t")
    if len(fields) < 2:
        raise ValueError("expected id, hypothesis and features between tabs")
    if is_tsv_header(first_line):
        if len({*fields, ""}) <= len(fields):
            raise ValueError(
                "a column of the header has no name, or two columns have the same name"
            )
        return fields
    further = (f"{DECODER_SCORE}.{number}" for number in range(2, len(fields) - 1))
    return [*TSV_HEADER, DECODER_SCORE, *further][: len(fields)]


def is_tsv_header(line: str) -> bool:
    """Return whether a line is a TSV header: `id<TAB>hypothesis…`."""
    return tuple(line.lower().split("\t")[:2]) == TSV_HEADER
