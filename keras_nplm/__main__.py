"""`python -m keras_nplm`: the same as `keras-nplm`."""

import sys

from keras_nplm.cli.main import main

sys.exit(main())
