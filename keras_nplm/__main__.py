"""`python -m keras_nplm`: the same as `keras-nplm`."""

import sys

from keras_nplm.cli import main

sys.exit(main())
