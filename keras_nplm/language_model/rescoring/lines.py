"""The lines of N-best lists: what each format's line says, and the same line with features added."""

import itertools
import math
import re
from collections.abc import Mapping

SCORE = "score"  # the decoder's total, where a format has one
BAR = "|||"
UNNAMED = "feature"
TSV_HEADER = ("id", "hypothesis")
_KALDI_KEY = re.compile(r"(\S+)-(\d+)")  # utterance and rank

Parsed = tuple[str, str, dict[str, float]]  # id, hypothesis, features


def number(text: str) -> float:
    """A finite number, as a line has it.

    Raises:
        ValueError: it is none.
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or "_" in text:
        raise ValueError(f"{text.strip()[:40]!r} is no finite number")
    return value


def read_moses(line: str) -> Parsed:
    """`id ||| hypothesis ||| name= value … name= value … ||| score`, perhaps with more fields, or without the score.

    Raises:
        ValueError: the line is no such line; what is wrong with it.

    Example:

    >>> read_moses("7 ||| the cat ||| LM= -3 TM= -1 -2 w=4 ||| -1.5")
    ('7', 'the cat', {'LM': -3.0, 'TM.1': -1.0, 'TM.2': -2.0, 'w': 4.0, 'score': -1.5})
    """
    fields = [field.strip() for field in line.split(BAR)]
    if len(fields) < 3 or not fields[0]:
        raise ValueError(f"expected `id {BAR} hypothesis {BAR} features {BAR} score`")
    features = _moses_features(fields[2])
    if len(fields) > 3:
        _put(features, SCORE, number(fields[3]))
    return fields[0], fields[1], features


def _moses_features(field: str) -> dict[str, float]:
    groups: dict[str, list[float]] = {}
    name = UNNAMED
    for token in field.split():
        begun, _, value = token.rpartition("=") if token[-1] != ":" else (token[:-1], ":", "")
        if not begun:
            value = token
        elif begun in groups:
            raise ValueError(f"the feature {begun} stands there twice")
        else:
            name, groups[begun] = begun, []
        if value:
            groups.setdefault(name, []).append(number(value))
    features: dict[str, float] = {}
    for name, values in groups.items():
        if not values:
            raise ValueError(f"the feature {name} has no value")
        alone = len(values) == 1 and name != UNNAMED
        for place, value in enumerate(values, start=1):
            _put(features, name if alone else f"{name}.{place}", value)
    return features


def _put(features: dict[str, float], name: str, value: float) -> None:
    if name in features:
        raise ValueError(f"the feature {name} stands there twice")
    features[name] = value


def write_moses(line: str, added: Mapping[str, float], total: float | None) -> str:
    """The line with features added to its own; a total takes the place of the score, which becomes a feature.

    Example:

    >>> write_moses("7 ||| the cat ||| LM= -3 ||| -1.5 ||| 0-0", {"nplm": -9.25}, -10.75)
    '7 ||| the cat ||| LM= -3 nplm= -9.250000 nplm_before= -1.5 ||| -10.750000 ||| 0-0'
    """
    fields = line.split(BAR)
    named = [f"{name}= {value:.6f}" for name, value in added.items()]
    if total is not None:
        if len(fields) > 3:
            named.append(f"{next(iter(added), SCORE)}_before= {fields[3].strip()}")
        fields[3:4] = [f" {total:.6f}" + (" " if len(fields) > 4 else "")]
    if named:
        fields[2] = " ".join([fields[2].rstrip(), *named]) + (" " if len(fields) > 3 else "")
    return BAR.join(fields)


def read_kaldi(line: str) -> Parsed:
    """`utterance-k words`: hypothesis k of an utterance.

    Raises:
        ValueError: the line is no such line.

    Example:

    >>> read_kaldi("sw02001-A-12 the cat")
    ('sw02001-A', 'the cat', {})
    """
    key, text = (*line.split(maxsplit=1), "", "")[:2]
    if not (match := _KALDI_KEY.fullmatch(key)):
        raise ValueError("expected `utterance-k words`, k the rank")
    return match[1], text.strip(), {}


def read_cost(line: str, key: str) -> float:
    """The number of an archive's line `key number`.

    Raises:
        ValueError: the line has another key, or no number.
    """
    fields = line.split()
    if len(fields) != 2 or fields[0] != key:
        raise ValueError(f"expected `{key} number`, in the order of the hypotheses")
    return number(fields[1])


def read_tsv(line: str, columns: list[str]) -> Parsed:
    """A value between tabs for each of some columns: id, hypothesis, scores.

    Raises:
        ValueError: the line is no such line.

    Example:

    >>> read_tsv("7\\tthe cat\\t-1.5", tsv_columns("7\\tthe cat\\t-1.5"))
    ('7', 'the cat', {'score': -1.5})
    """
    fields = line.split("\t")
    if len(fields) != len(columns):
        raise ValueError(f"expected {len(columns)} columns, as in line 1, and found {len(fields)}")
    if not (name := fields[0].strip()):
        raise ValueError("the id is empty")
    return name, fields[1].strip(), dict(zip(columns[2:], map(number, fields[2:]), strict=True))


def tsv_columns(first_line: str) -> list[str]:
    """The names of the columns: those of the first line if it is a header, else id, hypothesis, score, score.2, ….

    Raises:
        ValueError: there are fewer than two columns, or two of one name.

    Example:

    >>> tsv_columns("id\\thypothesis\\tacoustic"), tsv_columns("7\\tthe cat\\t-1.5\\t-3")
    (['id', 'hypothesis', 'acoustic'], ['id', 'hypothesis', 'score', 'score.2'])
    """
    fields = first_line.split("\t")
    if len(fields) < 2:
        raise ValueError("expected id, hypothesis and scores between tabs")
    if is_tsv_header(first_line):
        if len(set(fields)) < len(fields) or not all(fields):
            raise ValueError("a column has no name, or that of another")
        return fields
    places = itertools.count(2)
    return [*TSV_HEADER, *(SCORE if i == 0 else f"{SCORE}.{next(places)}" for i in range(len(fields) - 2))]


def is_tsv_header(line: str) -> bool:
    """Whether a line names columns."""
    return tuple(line.split("\t")[:2]) == TSV_HEADER


def new_line(format: str, name: str, rank: int, text: str, features: Mapping[str, float]) -> str:
    """The line of a hypothesis that came from no file.

    Example:

    >>> new_line("moses", "7", 1, "the cat", {"LM": -3.0, "score": -1.5})
    '7 ||| the cat ||| LM= -3 ||| -1.5'
    >>> new_line("kaldi", "utt", 1, "the cat", {}), new_line("tsv", "7", 1, "the cat", {"score": -1.5})
    ('utt-1 the cat', '7\\tthe cat\\t-1.5')
    """
    if format == "kaldi":
        return f"{name}-{rank} {text}"
    if format == "tsv":
        return "\t".join([name, text, *(f"{value:.10g}" for value in features.values())])
    named = " ".join(f"{feature}= {value:.10g}" for feature, value in features.items() if feature != SCORE)
    end = [f"{features[SCORE]:.10g}"] if SCORE in features else []
    return f" {BAR} ".join([name, text, named, *end])
