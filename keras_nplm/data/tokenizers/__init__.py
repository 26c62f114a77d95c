"""Tokenizers: lines of text to tokens and back. A kind of tokens is one class with all its facts.

base: `Tokenizer`, and what a kind of your own defines. words, characters, subwords, utf8_bytes: the
kinds. registry: a kind by its name. clean_text: NFC, for all kinds. normalisation: lower case,
numbers, lemmas. pieces: the names of subwords and bytes. token_graph, subword_graph: TensorFlow
operations, which only serving imports.

To add a kind to the package, write its class and name it in `registry.TOKENIZERS`.
"""
