"""Single-line faults, made one at a time in a copy of the package: do its tests see them?

    cd tests && python -m mutants [FILE …] [--seed N] [--each N] [--quick] [--list]

Faults are made from the syntax tree: a comparison turned round, + for −, a constant one off, a
condition negated, an argument left to its default, min for max, an axis or an index changed. Of
each FILE, a path inside ``stancoreset/``, `--each` faults are drawn by the seed, of as many kinds
as there are. The quick tests of the file run first, and its tests marked ``fit`` if none of these
fails. What cannot change a result is no fault: texts and messages, types, tuned defaults in
signatures, rounding. What remains and changes nothing is listed in `EQUIVALENT`, with the reason.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
QUICK, FIT = "not (fit or cmdstan or slow)", "fit and not (cmdstan or slow)"

#: The files from which most wrong results would come, and the tests of each.
TESTS: dict[str, tuple[str, ...]] = {
    "posterior/certificate.py": (
        "posterior/test_certificate.py",
        "posterior/test_marginals.py",
        "fit/test_refinement.py",
    ),
    "posterior/marginals.py": ("posterior/test_marginals.py", "fit/test_certified_by_marginals.py"),
    "rows/full_data.py": (
        "rows/test_full_data.py",
        "rows/test_glm.py",
        "rows/test_sources.py",
        "rows/test_distinct.py",
        "rows/test_costs.py",
        "rows/test_hessians.py",
        "fit/test_memory.py",
    ),
    "selection/expansion.py": (
        "selection/test_expansion.py",
        "selection/test_control_variate.py",
        "selection/test_hermite.py",
        "fit/test_iterating.py",
    ),
    "selection/control_variates.py": (
        "selection/test_control_variate.py",
        "fit/test_merge.py",
        "runs/test_run_folder.py",
    ),
    "selection/solvers/nnls.py": (
        "selection/test_solvers_exact.py",
        "selection/test_solvers_greedy.py",
        "selection/test_solvers_pursuit.py",
        "selection/test_solvers_invariants.py",
    ),
    "selection/hermite/projection.py": ("selection/test_hermite.py", "fit/test_without_draws.py"),
    "reference/collapsed/conditional.py": ("reference/collapsed", "fit/test_collapsing.py"),
    "program/certify.py": (
        "program/test_certify.py",
        "fit/test_refinement.py",
        "fit/test_certified_by_marginals.py",
        "model/test_workflow.py",
    ),
    "stan/weave/separate.py": (
        "stan/test_weave_passes.py",
        "stan/test_weave_small.py",
        "stan/test_weave_by_hand.py",
        "stan/test_weave_sums.py",
        "stan/test_weave.py",
    ),
}

#: Faults that change no result, by file and the changed line, each with the reason.
EQUIVALENT: dict[tuple[str, str], str] = {
    (
        "posterior/certificate.py",
        "return max(1.0, float(np.nan_to_num("
        "_longer((1.0, 0.0), (monte_carlo.mean, monte_carlo.sd)))))",
    ): "only the weakest bound is required of what moves much, and that is the one of no move",
    (
        "reference/collapsed/conditional.py",
        "return self.point + self.width * rng.uniform(1.0, 1.5, len(self.point))",
    ): "any random point is as generic",
    ("reference/collapsed/conditional.py", "seed: int = 1"): "any seed is as good",
    ("selection/hermite/projection.py", "pass  # one large matrix at a time is enough"): "memory",
    (
        "selection/control_variates.py",
        "least = eigh(rest, eigvals_only=True, )[0] if few else _lowest(rest)",
    ): "all eigenvalues ascend, and the first is the lowest",
    ("selection/hermite/projection.py", "MAX_CANDIDATES = 2001"): "a tuned number",
    (
        "program/certify.py",
        "half = max((value.shape[1] for value in variables.values()), default=0) // 2",
    ): "all variables have as many draws",
}

_COMPARISONS = {
    ast.Lt: ("<", ">="),
    ast.GtE: (">=", "<"),
    ast.Gt: (">", "<="),
    ast.LtE: ("<=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
_OPERATORS = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.Pow: ("**", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "//"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
}
_TWINS = ("min max", "minimum maximum", "all any", "argmin argmax", "zeros ones", "triu tril")
_TWINS += ("std var", "floor ceil", "log1p log", "expm1 exp", "zeros_like ones_like")
_OTHER = {a: b for pair in map(str.split, _TWINS) for a, b in (pair, pair[::-1])}
_DROPPED = ("abs", "sqrt", "sort", "sorted", "isfinite")
# Functions and calls that make text, check types or report.
_TEXTS = {"__str__", "__repr__", "_repr_html_", "describe", "facts", "precision"}
_REPORTS = {"check_is", "understood", "errstate", "debug", "info", "warning", "card", "field"}
# Options of speed, rounding, types and text.
_NO_RESULT = {"strict", "check_finite", "dtype", "repr", "compare", "out", "encoding", "copy"}
_NO_RESULT |= {"tol", "threads"}
_RETURNED = {
    "bool": "not ({})",
    "int": "({}) + 1",
    "float": "0.5 * ({})",
    "Float": "0.5 * ({})",
    "str": '""',
}


@dataclass(frozen=True, order=True)
class Fault:
    """A change of the bytes from `start` to `end` of a file, within one line."""

    file: str
    line: int
    kind: str
    before: str
    after: str
    start: int
    end: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.kind}: {self.before} → {self.after or 'nothing'}"

    @property
    def changed(self) -> str:
        """The line with the fault."""
        source = (ROOT / "stancoreset" / self.file).read_bytes()
        ahead, behind = source[: self.start].split(b"\n")[-1], source[self.end :].split(b"\n")[0]
        return (ahead.decode() + self.after + behind.decode()).strip()

    @property
    def reason(self) -> str:
        """Why the fault changes no result; empty if it does."""
        return EQUIVALENT.get((self.file, self.changed), "")

    def place(self, seed: int) -> int:
        """A random number that no change of other lines moves."""
        return zlib.crc32(f"{seed} {self.kind} {self.changed}".encode())


class _Reader:
    """All faults of one file."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.source = (ROOT / "stancoreset" / file).read_bytes()
        lines = self.source.splitlines(keepends=True)
        self._starts = np.concatenate([[0], np.cumsum([len(line) for line in lines])])

    def faults(self) -> list[Fault]:
        found = set(self._walk(ast.parse(self.source), None))
        return sorted(f for f in found if "\n" not in f.before)

    def _place(self, node: ast.AST) -> tuple[int, int]:
        start = self._starts[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]
        end = self._starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]
        return int(start), int(end)

    def _text(self, node: ast.AST) -> str:
        start, end = self._place(node)
        return self.source[start:end].decode()

    def _fault(self, kind: str, start: int, end: int, after: str) -> Fault:
        line = int(np.searchsorted(self._starts, start, side="right"))
        return Fault(self.file, line, kind, self.source[start:end].decode(), after, start, end)

    def _change(self, kind: str, node: ast.AST, after: str) -> Fault:
        return self._fault(kind, *self._place(node), after)

    def _between(self, kind: str, left: ast.AST, right: ast.AST, old: str, new: str) -> Fault:
        """What stands between two nodes, of which `old` becomes `new`; the line around it."""
        start, end = self._place(left)[1], self._place(right)[0]
        at = start + self.source[start:end].decode().index(old)
        return self._fault(kind, at, at + len(old), new)

    def _walk(self, node: ast.AST, returns: str | None) -> Iterator[Fault]:
        if isinstance(node, ast.FunctionDef):
            if node.name not in _TEXTS:
                named = None if node.returns is None else ast.unparse(node.returns)
                for statement in node.body:
                    yield from self._walk(statement, named)
            return
        if isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr | ast.Import | ast.ImportFrom):
            return
        if isinstance(node, ast.Call) and (_name(node.func) in _REPORTS or _is_empty(node)):
            return
        if isinstance(node, ast.keyword) and node.arg in _NO_RESULT:
            return
        if isinstance(node, ast.AnnAssign):  # not what stands in the annotation
            if node.value is not None:
                yield from self._walk(node.value, returns)
            return
        if isinstance(node, ast.Return) and node.value is not None:
            yield from self._returned(node, returns)
        yield from self._here(node)
        for child in ast.iter_child_nodes(node):
            if not isinstance(node, ast.Subscript) or child is not node.slice:
                yield from self._walk(child, returns)
            else:
                yield from self._indices(child)

    def _here(self, node: ast.AST) -> Iterator[Fault]:
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            old, new = _COMPARISONS[type(node.ops[0])]
            yield self._between("comparison", node.left, node.comparators[0], old, new)
        elif isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            if not any(isinstance(n, ast.JoinedStr) or _is_text(n) for n in ast.walk(node)):
                old, new = _OPERATORS[type(node.op)]
                yield self._between("operator", node.left, node.right, old, new)
        elif isinstance(node, ast.AugAssign) and type(node.op) in _OPERATORS:
            old, new = _OPERATORS[type(node.op)]
            yield self._between("operator", node.target, node.value, old, new)
        elif isinstance(node, ast.UnaryOp):
            yield self._change("sign", node, self._text(node.operand))
        elif isinstance(node, ast.BoolOp):
            old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
            for left, right in zip(node.values, node.values[1:], strict=False):
                yield self._between("condition", left, right, old, new)
        elif isinstance(node, ast.If | ast.IfExp | ast.While):
            yield self._negated(node.test)
        elif isinstance(node, ast.comprehension):
            yield from map(self._negated, node.ifs)
        elif isinstance(node, ast.Constant):
            yield from self._constant("constant", node)
        elif isinstance(node, ast.Call):
            yield from self._call(node)
        elif isinstance(node, ast.Attribute) and node.attr == "T":
            yield self._change("transposed", node, self._text(node.value))
        done = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
        if isinstance(node, ast.AugAssign) or (done and _name(node.value.func) not in _REPORTS):
            yield self._change("statement", node, "pass")

    def _negated(self, test: ast.expr) -> Fault:
        return self._change("condition", test, f"not ({self._text(test)})")

    def _constant(self, kind: str, node: ast.Constant) -> Iterator[Fault]:
        if isinstance(node.value, bool):
            yield self._change(kind, node, str(not node.value))
        elif isinstance(node.value, int):
            yield self._change(kind, node, str(node.value + 1))
        elif isinstance(node.value, float):
            yield self._change(kind, node, repr(2 * node.value or 1.0))

    def _indices(self, index: ast.AST) -> Iterator[Fault]:
        for node in ast.walk(index):
            if isinstance(node, ast.Constant) and isinstance(node.value, int):
                yield from self._constant("index", node)
            elif isinstance(node, ast.UnaryOp | ast.BinOp | ast.Compare):
                yield from self._here(node)

    def _call(self, node: ast.Call) -> Iterator[Fault]:
        called, name = node.func, _name(node.func)
        if name in _OTHER:
            _, end = self._place(called)
            yield self._fault("function", end - len(name), end, _OTHER[name])
        if name in _DROPPED and len(node.args) == 1 and not node.keywords:
            yield self._change("function", node, f"({self._text(node.args[0])})")
        if name == "copy" and isinstance(called, ast.Attribute) and not node.args:
            yield self._change("function", node, self._text(called.value))
        pair = node.args[:2]
        if len(pair) == 2 and all(isinstance(arg, ast.Name | ast.Attribute) for arg in pair):
            start, end = self._place(pair[0])[0], self._place(pair[1])[1]
            first, second = map(self._text, pair)
            if first != second:
                yield self._fault("arguments", start, end, f"{second}, {first}")
        for keyword in node.keywords:
            if keyword.arg == "axis" and isinstance(keyword.value, ast.Constant):
                yield self._change("axis", keyword, f"axis={abs(int(keyword.value.value) - 1)}")
            elif keyword.arg is not None and keyword.arg not in _NO_RESULT:
                yield self._dropped(node, keyword)

    def _dropped(self, call: ast.Call, keyword: ast.keyword) -> Fault:
        """The argument left to its default, with the comma after it."""
        start, end = self._place(keyword)
        comma = re.match(rb"\s*,", self.source[end:])
        return self._fault("argument", start, end + (comma.end() if comma else 0), "")

    def _returned(self, node: ast.Return, returns: str | None) -> Iterator[Fault]:
        value = node.value
        assert value is not None
        if isinstance(value, ast.Tuple) and len(value.elts) == 2:
            first, second = map(self._text, value.elts)
            yield self._change("returned", value, f"{second}, {first}")
        elif not isinstance(value, ast.Constant) and returns in _RETURNED:
            yield self._change("returned", value, _RETURNED[returns].format(self._text(value)))


def _name(called: ast.expr) -> str:
    if isinstance(called, ast.Attribute):
        return called.attr
    return called.id if isinstance(called, ast.Name) else ""


def _is_empty(call: ast.Call) -> bool:
    """Whether this makes an array without entries."""
    made = _name(call.func) in ("zeros", "ones", "empty") and ast.unparse(call.args[0])
    return bool(made and re.search(r"\b0\b", made))


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def draw(file: str, seed: int, count: int) -> list[Fault]:
    """Draw `count` faults of a file in as many lines, of as many kinds as there are."""
    kinds: dict[str, list[Fault]] = {}
    for fault in sorted(_Reader(file).faults(), key=lambda fault: fault.place(seed)):
        kinds.setdefault(fault.kind, []).append(fault)
    lists = list(kinds.values())
    chosen: list[Fault] = []
    while any(lists) and len(chosen) < count:
        for waiting in filter(None, lists):
            fault = waiting.pop(0)
            if len(chosen) < count and fault.line not in {other.line for other in chosen}:
                chosen.append(fault)
    return sorted(chosen)


@dataclass(frozen=True)
class Result:
    """Whether pytest failed, by which test, and after how many seconds."""

    failed: bool
    by: str
    seconds: float


@dataclass(frozen=True)
class Copy:
    """A copy of package and tests, in which faults are made."""

    folder: Path

    @classmethod
    def at(cls, folder: Path) -> Copy:
        """Copy what the tests need."""
        for name in ("stancoreset", "tests", "stan_models", "notebooks"):
            ignored = shutil.ignore_patterns("__pycache__", "*.ipynb")
            shutil.copytree(ROOT / name, folder / name, ignore=ignored)
        for name in ("pyproject.toml", "README.md"):
            shutil.copy(ROOT / name, folder)
        return cls(folder)

    def make(self, fault: Fault) -> None:
        """Change one line of the copy."""
        source = (ROOT / "stancoreset" / fault.file).read_bytes()
        changed = source[: fault.start] + fault.after.encode() + source[fault.end :]
        (self.folder / "stancoreset" / fault.file).write_bytes(changed)

    def restore(self, fault: Fault) -> None:
        """Take the change back."""
        shutil.copy(ROOT / "stancoreset" / fault.file, self.folder / "stancoreset" / fault.file)

    def test(self, paths: Iterable[str], which: str, limit: float, memory: int = 12) -> Result:
        """Run tests, at most `limit` seconds and `memory` gigabytes, until the first one fails."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=no", "-m", which]
        command += [f"tests/{path}" for path in paths]
        begun = time.monotonic()
        process = subprocess.Popen(
            command,
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(self.folder), "OPENBLAS_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (memory << 30,) * 2),
        )
        try:
            printed, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return Result(True, "time limit", time.monotonic() - begun)
        seconds = time.monotonic() - begun
        named = re.search(r"^(?:FAILED|ERROR) (\S+)", printed, flags=re.MULTILINE)
        # 5: none of the tests is of this kind
        return Result(process.returncode not in (0, 5), named[1] if named else "pytest", seconds)


def run(files: Sequence[str], seed: int, each: int, kinds: Sequence[str]) -> Iterator[str]:
    """A line for each fault: where, what, and by which test it is caught."""
    caught = made = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Copy.at(Path(folder))
        for file in files:
            paths = TESTS.get(file, (file.split("/")[0],))
            usual = {}
            for fault in draw(file, seed, each):
                if fault.reason:
                    yield f"{fault} | equivalent: {fault.reason}"
                    continue
                copy.make(fault)
                result = Result(False, "", 0.0)
                for which in kinds:
                    if which not in usual:
                        copy.restore(fault)
                        usual[which] = copy.test(paths, which, limit=1800)
                        if usual[which].failed:
                            yield f"{file}: {usual[which].by} fails without a fault"
                            return
                        copy.make(fault)
                    result = copy.test(paths, which, limit=30 + 3 * usual[which].seconds)
                    if result.failed:
                        break
                copy.restore(fault)
                made, caught = made + 1, caught + result.failed
                verdict = f"caught by {result.by}" if result.failed else "NOT CAUGHT"
                yield f"{fault} | {verdict} ({result.seconds:.0f} s)"
    yield f"{caught} of {made} faults are caught"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="*", metavar="FILE", default=list(TESTS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--each", type=int, default=6, help="faults of each file")
    parser.add_argument("--quick", action="store_true", help="without tests marked fit")
    parser.add_argument("--list", action="store_true", help="only list the faults")
    options = parser.parse_args(arguments)
    if options.list:
        for file in options.files:
            print(*draw(file, options.seed, options.each), sep="\n")
        return
    kinds = (QUICK,) if options.quick else (QUICK, FIT)
    for line in run(options.files, options.seed, options.each, kinds):
        print(line, flush=True)


if __name__ == "__main__":
    main()
