"""Measurements of the package: the paper's Table 1 on Brown, studies beyond it, and speed benchmarks.

rows: models that a report needs, made by commands. paper_rows: the rows of Table 1. paper: the report on Table 1.
log_probs: log-probabilities of held-out tokens and perplexities of mixtures. tables: reports as Markdown and figures.
studies: one module a study. benchmark: one module a benchmark. Other packages import these modules only when they run.
"""
