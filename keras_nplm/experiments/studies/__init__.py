"""Studies on Brown beyond the paper's Table 1: a module declares each, and is imported when its
study is loaded. The module `texts` makes the texts of `default` from public corpora.
"""
