"""Formats of N-best lists: parse a line of Moses, Kaldi or TSV, and write a line with added
features.
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from keras_nplm.io.text import SPACES, split_fields

# the feature that holds the decoder's total, in formats that have one
DECODER_SCORE = "score"
# between the fields of Moses
SEPARATOR = "|||"
# the name of features of Moses that have none
UNNAMED = "feature"
TSV_HEADER = ("id", "hypothesis")
# names of the columns of the id and of the hypothesis in the headers of other tools
TSV_IDS = ("id", "utt", "utt_id", "utterance", "utterance_id", "key", "list", "list_id")
TSV_HYPOTHESES = ("hypothesis", "hyp", "text", "sentence", "translation", "transcript", "words")
# and of the reference in those of files of references
TSV_REFERENCES = (*TSV_HYPOTHESES, "reference", "ref", "transcription")
# utterance and rank
_KALDI_LINE = re.compile(rf"[{SPACES}]*([^{SPACES}]+)-([0-9]+)(?:[{SPACES}]+(.*))?", re.DOTALL)

# id, hypothesis, features
ParsedLine = tuple[str, str, dict[str, float]]

# an escaped ampersand is last, so that it starts no further escape
_MOSES_ESCAPES = {
    "&#124;": "|",
    "&lt;": "<",
    "&gt;": ">",
    "&apos;": "'",
    "&quot;": '"',
    "&#91;": "[",
    "&#93;": "]",
    "&amp;": "&",
}


def parse_number(text: str) -> float:
    """Parse a finite number."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    # Python's numbers may have underscores, as in 1_000
    if not math.isfinite(value) or "_" in text:
        raise ValueError(f"{text.strip()[:40]!r} is not a finite number")
    return value


def name_total(feature: str) -> str:
    """Return the name of the total that rescoring with a feature writes to a column of its own."""
    return f"{feature}_total"


def unescape_moses(text: str) -> str:
    """Replace the escapes of Moses's tokenizer by their characters."""
    for escape, character in _MOSES_ESCAPES.items():
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
    name, hypothesis, feature_field, *others = fields
    features = _parse_moses_features(feature_field)
    if others:
        _set_feature(features, DECODER_SCORE, parse_number(others[0]))
    return name, unescape_moses(hypothesis), features


def _parse_moses_features(field: str) -> dict[str, float]:
    features: dict[str, float] = {}
    for name, values in _group_moses_values(field).items():
        if not values:
            raise ValueError(f"the feature {name} has no value")
        if len(values) == 1 and name != UNNAMED:
            _set_feature(features, name, values[0])
            continue
        for number, value in enumerate(values, start=1):
            _set_feature(features, f"{name}.{number}", value)
    return features


def _group_moses_values(field: str) -> dict[str, list[float]]:
    """Return the values after each name: `name= value …`, `name: value …` or `name=value`.

    A name may contain an equals sign: the last one ends it.
    """
    groups: dict[str, list[float]] = {}
    current = UNNAMED
    for token in split_fields(field):
        if token.endswith(":"):
            name = token[:-1]
            value = ""
        else:
            name, _, value = token.rpartition("=")
        if not name:
            # `token` is a number of the current feature, or no number at all
            groups.setdefault(current, []).append(parse_number(token))
            continue
        if name in groups:
            raise ValueError(f"the feature {name} occurs twice")
        current = name
        groups[name] = [parse_number(value)] if value else []
    return groups


def _set_feature(features: dict[str, float], name: str, value: float) -> None:
    if name in features:
        raise ValueError(f"the feature {name} occurs twice")
    features[name] = value


def extend_moses_line(line: str, new_features: Mapping[str, float], total: float | None) -> str:
    """Return a Moses line with more features.

    A total replaces the score, which is kept as a feature `NAME_before`.
    """
    name, hypothesis, features, *others = line.split(SEPARATOR)
    added = [f"{feature}= {value:.6f}" for feature, value in new_features.items()]
    if total is not None:
        if others:
            model = next(iter(new_features), DECODER_SCORE)
            before = others[0].strip(SPACES)
            added.append(f"{model}_before= {before}")
        # a space before each separator, none at the end of the line
        end = " " if len(others) > 1 else ""
        others[:1] = [f" {total:.6f}{end}"]
    if added:
        end = " " if others else ""
        features = " ".join([features.rstrip(SPACES), *added]) + end
    return SEPARATOR.join([name, hypothesis, features, *others])


def parse_kaldi_line(line: str) -> ParsedLine:
    """Parse `utterance-k words`, hypothesis k of an utterance."""
    match = _KALDI_LINE.fullmatch(line)
    if match is None:
        raise ValueError("expected `utterance-k words`, k the rank")
    utterance, _, words = match.groups(default="")
    return utterance, words.strip(SPACES), {}


def parse_kaldi_cost(line: str, key: str) -> float:
    """Parse the number of a line `key number` of a Kaldi archive."""
    fields = split_fields(line)
    if len(fields) != 2 or fields[0] != key:
        raise ValueError(f"expected `{key} number`, in the order of the hypotheses")
    return parse_number(fields[1])


class TsvColumns(NamedTuple):
    """The columns of a TSV file: their names, and the places of the id and of the hypothesis.

    `is_header` says whether the first line has the names. `is_known` says whether it names the id
    and the hypothesis as `TSV_IDS` and `TSV_HYPOTHESES` do.
    """

    names: list[str]
    id: int = 0
    hypothesis: int = 1
    is_header: bool = False
    is_known: bool = False


def parse_tsv_line(line: str, columns: TsvColumns) -> ParsedLine:
    """Parse a line of tab-separated columns: id, hypothesis, features."""
    fields = line.split("\t")
    number = len(columns.names)
    if len(fields) != number:
        raise ValueError(f"expected {number} columns, as in line 1, and found {len(fields)}")
    name = fields[columns.id].strip(SPACES)
    if not name:
        raise ValueError("the id is empty")
    features = {}
    for place, (feature, field) in enumerate(zip(columns.names, fields, strict=True)):
        if place not in (columns.id, columns.hypothesis):
            features[feature] = parse_number(field)
    return name, fields[columns.hypothesis].strip(SPACES), features


def read_tsv_columns(first_line: str) -> TsvColumns:
    """Return the TSV columns of a header line, or by default id, hypothesis, score, score.2, ….

    A line is a header if it has no number in the columns of features. The id and the hypothesis are
    found by name, or else are the first two columns.
    """
    fields = first_line.split("\t")
    if len(fields) < 2:
        raise ValueError("expected id, hypothesis and features between tabs")
    names = [field.strip(SPACES) for field in fields]
    id_place = _find_column(names, TSV_IDS)
    hypothesis_place = _find_column(names, TSV_HYPOTHESES)
    is_known = id_place is not None and hypothesis_place is not None
    places = (id_place, hypothesis_place) if is_known else (0, 1)
    others = [name for place, name in enumerate(names) if place not in places]
    if any(map(_is_number, others)) or not (others or is_known):
        scores = (f"{DECODER_SCORE}.{number}" for number in range(2, len(fields) - 1))
        default = [*TSV_HEADER, DECODER_SCORE, *scores]
        # a file of ids and hypotheses alone has no score
        return TsvColumns(default[: len(fields)])
    if "" in names or len(set(names)) < len(names):
        raise ValueError("a column of the header has no name, or two columns have the same name")
    if id_place is None or hypothesis_place is None:
        return TsvColumns(names, is_header=True)
    return TsvColumns(names, id_place, hypothesis_place, is_header=True, is_known=True)


def is_reference_header(line: str) -> bool:
    """Return whether a line names the columns of the list and of its reference."""
    names = [field.strip(SPACES).lower() for field in line.split("\t")]
    return len(names) == 2 and names[0] in TSV_IDS and names[1] in TSV_REFERENCES


def _find_column(names: Sequence[str], wanted: Sequence[str]) -> int | None:
    """Return the place of the first column with one of the names, in any case; None without one."""
    return next((place for place, name in enumerate(names) if name.lower() in wanted), None)


def _is_number(text: str) -> bool:
    """Return whether a text is a number, also one that is not finite."""
    try:
        float(text)
    except ValueError:
        return False
    return True
