"""Packages of timetoaccuracy: the checker, the log layer and the reference tasks.

`package_dir` maps the import name `runlog` to the plain folder `logging/runlog` (see logging/README.md for why
`logging/` itself is not a package). Requirements are lower bounds; exact versions are in requirements*.txt.
"""

import re
from pathlib import Path

from setuptools import Extension, find_packages, setup

HERE = Path(__file__).parent
VERSION = re.search(r'__version__ = "([^"]+)"', (HERE / "compliance/__init__.py").read_text(encoding="utf-8")).group(1)

setup(
    name="timetoaccuracy",
    version=VERSION,
    description="Nineteen AI-training benchmarks in PyTorch, and a checker for the logs they leave",
    long_description=(HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.10",
    packages=["runlog", *find_packages(include=["compliance", "compliance.*", "reference", "reference.*"])],
    package_dir={"runlog": "logging/runlog"},
    ext_modules=[  # the checker does without it where it cannot be compiled, more slowly
        Extension(
            "compliance._scan",
            ["compliance/native/scan.c"],
            depends=["compliance/native/record.h", "compliance/native/words.h"],
            optional=True,
        )
    ],
    package_data={
        "reference": ["*/benchmark.toml", "*/rcps.json", "*/README.md"],
        "runlog": ["py.typed"],
        "compliance": ["py.typed", "_scan.pyi", "native/*"],
    },
    install_requires=[
        "mlperf-logging>=4.1.39",
        "msgspec>=0.18",
        "pyyaml>=6",
        "rich>=13",
        "tomli>=2; python_version < '3.11'",
    ],
    extras_require={
        "train": ["torch>=2.4", "numpy>=1.26", "pillow>=10", "psutil>=5.9", "py-cpuinfo>=9", "nvidia-ml-py>=12"]
        + ["scipy>=1.10", "sacrebleu>=2.4", "jiwer>=3", "rouge-score>=0.1.2", "soundfile>=0.12"],
        "scores": ["numpy>=1.26", "scipy>=1.10"],
        "report": ["jinja2>=3.1", "plotly>=5.20", "pandas>=2"],
        "dev": ["pytest>=8", "pytest-xdist>=3.5", "ruff>=0.6", "mypy>=1.11", "pre-commit>=3", "transformers>=4.40"],
    },
)
