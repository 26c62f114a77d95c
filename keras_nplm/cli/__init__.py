"""The command line `keras-nplm`. A command imports its libraries when it runs: help comes at once.

Read first: main, errors and exit statuses; app, the commands, and how their arguments are parsed. A
command is one function with typed parameters, which returns its result; `printed_by` names what
prints it.

- training (train, size), preparing (prepare), estimating (ngram, mix), adapting (adapt, add-words),
  evaluating (evaluate, score), completing (complete, generate), rescoring (rescore), word_vectors
  (nearest, analogy, map), exporting (export), experiments (paper).
- parameters: types of arguments and flags. corpus, configurations: flags of the text and
  `--config`. help: what is added to the help of cyclopts. printing: results and errors. signals:
  SIGTERM and Ctrl-C.

A command of your own is a function in one of these modules and a row of `app.COMMANDS`. Flags of
training are not here: they are fields in `keras_nplm.training.options`.
"""
