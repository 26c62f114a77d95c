"""The build of keras_nplm. The version is read from the one place that holds it.

TensorFlow comes in two packages that must never both be installed. `tensorflow` is the default: it is what GPU users
extend (`tensorflow[and-cuda]`) and what other packages ask for. For a machine without a GPU the same code runs on the
smaller `tensorflow-cpu`; set KERAS_NPLM_TENSORFLOW=tensorflow-cpu when installing.
"""

import os
import pathlib
import re

from setuptools import find_packages, setup

root = pathlib.Path(__file__).parent
version = re.search(r'__version__ = "(.+)"', (root / "keras_nplm" / "__init__.py").read_text(encoding="utf-8"))[1]
readme = (root / "README.md").read_text(encoding="utf-8")
# a package index has none of the README's files: their pictures go, their links become their text
readme = re.sub(r"!?\[([^]]*)\]\((?!https://)[^)]*\)", lambda link: "" if link[0][0] == "!" else link[1], readme)
tensorflow = os.environ.get("KERAS_NPLM_TENSORFLOW", "tensorflow")
litert = ["ai-edge-litert>=2"]
onnx = ["tf2onnx>=1.17", "onnxruntime>=1.20"]
openvino = ["openvino>=2025.0"]  # only tests read our files with it; 180 MB
zstd = ["zstandard>=0.22"]
lemmas = ["simplemma>=2,<3"]

setup(
    name="keras-nplm",
    version=version,
    description="The neural probabilistic language model of Bengio et al. (2003) for Keras and TensorFlow",
    author="The keras_nplm authors",
    keywords="language model, n-gram, neural probabilistic language model, Kneser-Ney, Keras, TensorFlow, perplexity",
    project_urls={"Paper": "https://www.jmlr.org/papers/v3/bengio03a.html"},
    long_description=readme,
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    packages=find_packages(include=["keras_nplm*"]),
    package_data={
        "keras_nplm": ["py.typed"],
        "keras_nplm.language_model.presets": ["*/*"],
        "keras_nplm.experiments.records": ["*.json"],
    },
    python_requires=">=3.11,<3.14",
    install_requires=[
        f"{tensorflow}>=2.19,<3",
        "keras>=3.11,<4",
        "tensorflow-datasets>=4.9.8,<5",
        "importlib_resources",  # tensorflow-datasets needs it to download, and does not say so
        "tensorboard>=2.19,<3",  # tensorflow 2.21 no longer brings it
        "numpy>=1.26,<3",
        "matplotlib>=3.8",
        "rapidfuzz>=3",
        "scikit-learn>=1.5",
        "tqdm>=4.66",
    ],
    extras_require={
        "test": [
            *["pytest>=8", "pytest-xdist>=3", "hypothesis>=6", "nbclient>=0.10", "ipykernel>=6"],
            *["ruff>=0.14", "mypy>=1.15"],
            *[*litert, *onnx, *zstd, *lemmas],
        ],
        "notebooks": ["notebook>=7", *litert, *onnx],
        "litert": litert,
        "onnx": onnx,
        "openvino": openvino,
        "zstd": zstd,
        "lemmas": lemmas,
        "benchmark": ["torch>=2.6", "kenlm"],
    },
    entry_points={"console_scripts": ["keras-nplm = keras_nplm.cli.main:main"]},
    classifiers=[
        "Development Status :: 4 - Beta",
        "Intended Audience :: Education",
        "Intended Audience :: Science/Research",
        "Intended Audience :: Developers",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Topic :: Text Processing :: Linguistic",
        "Typing :: Typed",
    ],
)
