"""Input and output that every package uses: errors, files and the options.

Read first: errors, `InputError` (exit status 2) and `RunError` (1). fields: an option with its
type, range, default and help, as a field of a dataclass. parts: a choice among such dataclasses,
such as the heads of a network. stages: what an output directory holds, how it is resumed, and how
damage is found.

- files, arrays: atomic writes, and checks of JSON and NumPy files. text: text files, known by their
  first bytes. standard_input: `-` in place of a file. paths, lock: invalid output paths, one writer
  of a directory. interruption: Ctrl-C ends work at the next batch. remote: `gs://` and `s3://`
  paths: fetch, run, send.
- shapes: sizes that follow from options. progress, markdown: bars and tables. extras: optional
  libraries. processor: its name. memory: reuse of freed memory.

To add an optional library, name it in `extras.EXTRA_OF` and in setup.py.
"""
