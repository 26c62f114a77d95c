"""Options of adaptation, of new words and of ARPA files, see `describe_fields`."""

import dataclasses
from typing import Annotated, Literal

from keras_nplm.io.fields import Option, check_values
from keras_nplm.models.defaults import MIN_EXPECTED_COUNT, ORDER


@dataclasses.dataclass(frozen=True, kw_only=True)
class AdaptationOptions:
    """How a language model is adapted to a text.

    Raises:
        InputError: an option has another type or is out of its range.
    """

    held_out: Annotated[float, Option(least=0.01, below=1)] = 0.1
    """share of the lines, the last ones, that early stopping uses"""

    epochs: Annotated[int, Option(least=1)] = 10
    """largest number of epochs for each learning rate"""

    seed: Annotated[int, Option(least=0, below=1 << 31)] = 0
    """seed of the order of the n-grams"""

    def __post_init__(self) -> None:
        check_values(self)


@dataclasses.dataclass(frozen=True, kw_only=True)
class NewWordOptions:
    """Which words are added to a network, and by which rule.

    Raises:
        InputError: an option has another type or is out of its range.
    """

    min_count: Annotated[int, Option(least=1)] = 1
    """least count of a new word in the text"""

    rule: Literal["likelihood", "expectation"] = "likelihood"
    """rule for the new vectors: likelihood uses the words before and after, expectation (the
    paper's) those before"""

    prior_tokens: Annotated[int, Option(least=1)] = 10_000
    """tokens of prior text without the new words, which shrinks their probability"""

    def __post_init__(self) -> None:
        check_values(self)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ArpaOptions:
    """How a model becomes an ARPA file.

    Raises:
        InputError: an option is out of its range.
    """

    order: Annotated[int | None, Option(least=2, below=1024, example=ORDER)] = None
    """n, up to the model's order"""

    min_expected_count: Annotated[float | None, Option(above=0, example=MIN_EXPECTED_COUNT)] = None
    """least expected count in the text for which an n-gram is listed"""

    prune: Annotated[float | None, Option(least=0, example=1e-7)] = None
    """pruning threshold: relative rise of perplexity below which an n-gram is removed, such as
    1e-7"""

    def __post_init__(self) -> None:
        check_values(self)
