"""The command line `keras-nplm`. A command imports its libraries when it runs: help comes at once.

main: what is printed, errors, exit statuses. app: the commands, and how their arguments are parsed.
parameters: types of arguments and flags. corpus, configurations: flags of the text and `--config`.
help: the help. errors: what is wrong with a command line. signals: SIGTERM and Ctrl-C. A command is
one function with typed parameters, which returns its result; a second function prints it. They are
in training (train, size), preparing (prepare), estimating (ngram, mix), adapting (adapt,
add-words), evaluating (evaluate, score, complete, generate), rescoring (rescore), word_vectors
(nearest, analogy, map), exporting (export) and experiments (benchmark, paper, study).
"""
