"""`--config` and the flags of the options that named configurations have."""

import sys
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from keras_nplm.cli.corpus import GROUP
from keras_nplm.cli.parameters import Given, flatten
from keras_nplm.training.configurations import (
    CONFIGURATIONS,
    SMALL,
    NamedConfiguration,
    list_flags,
)
from keras_nplm.training.options import Options, TextOptions

_CONFIG = Parameter(
    help="named configuration: bengio2003, modern-small, …; see --help-all",
    metavar="NAME",
    choices=tuple(CONFIGURATIONS),
    show_choices=False,
    show_default=SMALL,
)
ConfigName = Annotated[str | None, _CONFIG]

if TYPE_CHECKING:
    TextFlags = Given
else:
    TextFlags = flatten({TextOptions: GROUP})


def get_configuration(name: str | None) -> NamedConfiguration:
    """Return a named configuration, by default `small`."""
    return CONFIGURATIONS[name or SMALL]


def announce_text(name: str | None, text: TextOptions, given: Given) -> None:
    """Print the options of the text that a named configuration chooses."""
    flags = list_flags(Options(text=text), SMALL, without=given)
    if name is not None and flags:
        print(f"{name} reads text by {' '.join(flags)}: flags override it.", file=sys.stderr)
