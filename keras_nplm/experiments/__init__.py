"""Reproduction of the paper's Table 1 on Brown: its models, their figures, the table and a picture.

Read first: paper, the rows of `paper.json` measured, as a table and drawn; rows, the models of a
report, each made once by a command.

- log_probs: log-probabilities and mixtures of the models of a report. origin: the code and the
  processor that made a model.

`record.json` has the figures that were measured for the README and notebook 02. Studies beyond the
paper and benchmarks beside peers are development: `tests/benchmarks` of a checkout.
"""
