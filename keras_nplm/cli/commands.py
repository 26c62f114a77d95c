"""What the command line can do, a module for each family of commands: its flags, what it runs, what it shows."""

import keras_nplm.cli.adding as adding
import keras_nplm.cli.asking as asking
import keras_nplm.cli.estimating as estimating
import keras_nplm.cli.exporting as exporting
import keras_nplm.cli.measuring as measuring
import keras_nplm.cli.rescoring as rescoring
import keras_nplm.cli.sizing as sizing
import keras_nplm.cli.training as training
import keras_nplm.cli.words as words

FAMILIES = (
    training,
    sizing,
    estimating,
    adding,
    asking,
    rescoring,
    words,
    exporting,
    measuring,
)  # in the order of `--help`
