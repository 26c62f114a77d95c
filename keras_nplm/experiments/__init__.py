"""Measurements: the paper's Table 1 on Brown, studies beyond it, and benchmarks beside peers.

Read first: study, a report as data, and its runner; rows, the models of a report, each made once by
a command.

- paper, claims: Table 1, and what the paper claims. paper_optimiser: its rows by the paper's own
  optimiser. studies, benchmark: the other declarations.
- seeds: several models of one network. origin: the code and the processor that made a model.
- tables: columns as data. log_probs: log-probabilities and mixtures of the models of a report.
- records: the reports that the package ships, and the pages that show them.

To measure a variant, add a row to its study, run the command, and give `--record`. Other packages
import these modules only when they run.
"""
