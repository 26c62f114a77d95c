"""The command line `keras-nplm`. A command imports its libraries when it runs, so that help and errors come at once.

main: commands, exit status. flags: flags from the table of options. signals: SIGTERM and Ctrl-C at workers. training
(train, size), estimating (ngram, mix), adapting (adapt, add-words), evaluating (evaluate, score, complete, generate),
word_vectors (nearest, analogy, map), experiments (benchmark, paper, study).
"""
