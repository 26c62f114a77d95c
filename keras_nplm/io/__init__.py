"""Input and output that every package uses: errors, files, progress bars, tables and the options.

errors: `InputError` (exit status 2) and `RunError` (1). files: atomic writes, and checks of JSON and NumPy files.
encodings: bytes that are not UTF-8. lock: one writer of an output directory. paths: invalid output paths.
options: the table of options, for `NPLM`, `Configuration` and the command line. shapes: sizes that follow from options.
progress: tqdm bars. markdown: tables. foreign_text: escapes for spreadsheets and terminals.
extras: imports libraries of optional extras. startup: code around the import of a library, such as TensorFlow's
start-up messages hidden.
"""
