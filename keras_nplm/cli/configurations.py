"""`--config` and the flags of the options that named configurations have."""

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from keras_nplm.cli.corpus import GROUP
from keras_nplm.cli.parameters import Given, flatten
from keras_nplm.training.configurations import CONFIGURATIONS, SMALL, NamedConfiguration
from keras_nplm.training.options import TextOptions

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
