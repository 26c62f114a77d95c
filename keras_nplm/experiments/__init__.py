"""Measurements of the package: the paper's Table 1 on Brown, studies beyond it, and benchmarks
beside peers.

rows: the models of a report, each made once by a command; seeds: several of one network. origin:
the code and the processor that made them. study: a report as data, and its runner. tables: columns
as data. log_probs: log-probabilities and mixtures of the models. paper, studies, benchmark: the
declarations; claims: those of the paper. records: the reports that the package ships, and the pages
that show them. Other packages import these modules only when they run.
"""
