"""Input and output that every package uses: errors, files, progress bars, tables and the options.

errors: `InputError` (exit status 2) and `RunError` (1). files: atomic writes, and JSON and NumPy files checked as they
are read. progress: tqdm bars on standard error. markdown: tables. options: the table of options, for `NPLM`,
`Configuration` and the command line. import_hooks: registers our classes after Keras or TFDS is imported.
"""
