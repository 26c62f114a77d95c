"""Input and output that every package uses: errors, files, progress bars, tables and the options.

errors: `InputError` (exit status 2) and `RunError` (1). files, arrays: atomic writes, and checks of
JSON and NumPy files. text: text files, known by their first bytes. paths, lock: invalid output
paths, one writer of a directory. remote: `gs://` and `s3://` paths. options: the table of options.
shapes: sizes that follow from options.
"""
