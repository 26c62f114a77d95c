"""`--config` and the flags of the options that named configurations have."""

from typing import TYPE_CHECKING, Annotated

from cyclopts import Group, Parameter

from keras_nplm.cli.corpus import GROUP
from keras_nplm.cli.parameters import Given, flatten
from keras_nplm.training.configurations import CONFIGURATIONS, SMALL, NamedConfiguration
from keras_nplm.training.options import TextOptions

_GROUP = Group.create_ordered(
    "named configurations",
    help="\n".join(f"{named.name}: {named.description}" for named in CONFIGURATIONS.values()),
)
_CONFIG = Parameter(
    help="named configuration; other flags override its options",
    group=_GROUP,
    metavar="NAME",
    choices=tuple(CONFIGURATIONS),
    show_choices=False,  # the help of the group has each with its description
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
