"""Input and output that every package uses: errors, files, progress bars, tables and the options.

errors: `InputError` (exit status 2) and `RunError` (1). files: atomic writes, and checks of JSON and NumPy files.
text: text files, known by their first bytes, and their white space. lock: one writer of an output directory.
paths: invalid output paths. remote: `gs://` and `s3://` paths. options: the table of options, for `NPLM`,
`Configuration` and the command line. shapes: sizes that follow from options. progress: tqdm bars. markdown: tables.
extras: imports libraries of optional extras. startup: registers our classes after Keras or TFDS is imported, and hides
TensorFlow's start-up messages.
"""
