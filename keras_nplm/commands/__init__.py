"""What the command line can do, a module for each family of commands: its flags, what it runs, what it shows."""

import keras_nplm.commands.adding as adding
import keras_nplm.commands.asking as asking
import keras_nplm.commands.estimating as estimating
import keras_nplm.commands.exporting as exporting
import keras_nplm.commands.measuring as measuring
import keras_nplm.commands.rescoring as rescoring
import keras_nplm.commands.sizing as sizing
import keras_nplm.commands.training as training
import keras_nplm.commands.words as words

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
