"""Options of the estimation of an n-gram model, fields as in `io.fields`. Imports no NumPy."""

import dataclasses
from typing import Annotated, Literal

from keras_nplm.io.fields import Option, check_values

Method = Literal["kneser-ney", "deleted-interpolation", "class-based"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class NgramOptions:
    """How an n-gram model is estimated.

    Raises:
        InputError: an option has another type or is out of its range.
    """

    method: Method = "kneser-ney"
    """estimation method; kneser-ney sorts counts on disk if memory is too small, the others need
    them in memory"""

    order: Annotated[int, Option(least=1, below=1024)] = 5
    """n, order of the n-grams; a context has n-1 words; methods other than kneser-ney need 2"""

    num_classes: Annotated[int, Option(least=1)] = 500
    """number of word classes of the method class-based"""

    word_classes: str | None = None
    """file of word classes to use, one word and its class per line, separated by a tab"""

    paper_bins: Annotated[bool, Option(advanced=True)] = False
    """deleted interpolation with weights by the frequency of the whole context alone"""

    def __post_init__(self) -> None:
        check_values(self)
