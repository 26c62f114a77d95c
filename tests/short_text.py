"""A program before others, in a process of its own: each topic of the embedded text is short."""

SHORT_TEXT = """
import gc
import pydoc_data.topics as text

gc.set_threshold(50_000, 10, 10)  # as in tests/conftest.py
text.topics = {name: topic[:2000] for name, topic in text.topics.items()}
"""
