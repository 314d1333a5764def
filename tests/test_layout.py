"""Guards of the layout: who may import what, and that the folder `logging/` never hides the standard library."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
STDLIB = set(sys.stdlib_module_names)
ALLOWED = {
    "logging/runlog": {"runlog", "mlperf_logging"},
    "reference/common": {
        "reference",
        "runlog",
        "torch",
        "numpy",
        "rich",
        "tomli",
        "psutil",
        "cpuinfo",
        "pynvml",
        "PIL",
    },
    "compliance": {"compliance", "msgspec", "rich", "tomli"},
}
INSIDE_A_COMMAND = {"numpy", "pandas", "scipy", "yaml", "plotly", "jinja2", "duckdb"}
FORBIDDEN_IN_TASKS = {"torchvision", "torchaudio", "timm", "compliance"}
OPTIONAL_IN_TASKS = {"apex"}  # used where it is installed, so imported inside a function


def imports(path):
    """(module, whether the import stands at the top of the file) for each import of a source file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    top = set(map(id, tree.body))
    for node in tree.body:
        if isinstance(node, ast.If | ast.Try):
            top |= {id(child) for child in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, id(node) in top
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module or "", id(node) in top


def sources(folder):
    return [path for path in sorted((ROOT / folder).rglob("*.py")) if not path.name.startswith("test_")]


@pytest.mark.parametrize("folder", ALLOWED)
def test_who_may_import_what(folder):
    for path in sources(folder):
        for module, top in imports(path):
            name = module.partition(".")[0]
            if name in STDLIB or name in ALLOWED[folder]:
                continue
            assert folder == "compliance" and name in INSIDE_A_COMMAND and not top, f"{path}: {module}"


def test_log_layer_uses_only_the_writer_of_mlperf_logging():
    for path in sources("logging/runlog"):
        for module, _ in imports(path):
            assert not module.startswith("mlperf_logging") or module.startswith("mlperf_logging.mllog"), path


def test_common_knows_no_task():
    tasks = {path.parent.name for path in ROOT.glob("reference/*/benchmark.toml")}
    for path in sources("reference/common"):
        text = path.read_text(encoding="utf-8")
        assert not [task for task in tasks if task in text], path


def test_tasks_do_not_import_one_another():
    for toml in ROOT.glob("reference/*/benchmark.toml"):
        for path in toml.parent.rglob("*.py"):
            for module, top in imports(path):
                first, _, rest = module.partition(".")
                assert first not in OPTIONAL_IN_TASKS or not top, f"{path}: {module}"
                assert first not in FORBIDDEN_IN_TASKS or path.name.startswith("test_"), f"{path}: {module}"
                assert first != "reference" or rest == "common" or rest.startswith("common."), f"{path}: {module}"


def test_no_list_of_task_names():
    """The names of the tasks stand in their folders' names, and for people: nowhere in code."""
    tasks = {path.parent.name for path in ROOT.glob("reference/*/benchmark.toml")}
    code = [*sources("compliance"), *sources("logging/runlog"), *ROOT.glob("reference/*.py")]
    for path in code:
        text = path.read_text(encoding="utf-8")
        assert len([task for task in tasks if task in text]) < 2, path


def test_logging_is_the_standard_library():
    assert not (ROOT / "logging" / "__init__.py").exists()
    command = "import logging, sys; print(logging.__file__); logging.getLogger('x')"
    done = subprocess.run([sys.executable, "-c", command], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "logging/__init__.py" in done.stdout.replace("\\", "/")
    assert str(ROOT) not in done.stdout


def test_no_module_is_named_like_a_standard_one():
    """`python reference/x/train.py` puts the script's folder first on the path."""
    for toml in ROOT.glob("reference/*/benchmark.toml"):
        assert not [path for path in toml.parent.glob("*.py") if path.stem in STDLIB]


def test_check_starts_light():
    """The checker imports neither torch nor pandas, nor anything of the reference or the log layer."""
    command = (
        "import sys, compliance.check as c; c.main(['--list-rules']);"
        "bad = {'torch', 'pandas', 'numpy', 'scipy', 'reference', 'runlog', 'rich'} & set(sys.modules);"
        "sys.exit(str(bad) if bad else 0)"
    )
    done = subprocess.run([sys.executable, "-c", command], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
