"""Sources of text, all read as sentences of tokens.

opening: `open_corpus`. text_files: plain text, split by lines or by files. data_files: a field of
JSON Lines, CSV, TSV or Parquet in place of text. chunks: large files cut
for parallel work. brown, python_reference: the two built-in corpora. tfds_sets: any text set of
TensorFlow Datasets. tfds_builders: our corpora as TFDS builders. download: the one file that Brown
needs.
"""
