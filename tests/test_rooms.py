"""The plan of the package: which room may import which, and only what a room hands out.

A *room* is a package of ``stancoreset``, a *file* one of its modules. Rooms at the top stand in
`FLOORS`, from the highest to the lowest; the files beside them are the ground floor.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

import stancoreset

PACKAGE = Path(stancoreset.__file__).parent
#: An import goes down this list, or to the ground floor.
FLOORS = (
    "cli",
    "batch",
    "demo",
    "formulas",
    "model",
    "fit",
    "analysis",
    "runs",
    "program",
    "selection",
    "reference",
    "posterior",
    "rows",
    "engines",
    "stan",
)
#: These open every room on demand, and no room imports from them.
DOORS = ("stancoreset", "stancoreset.__main__", "stancoreset.experiments")


@dataclass(frozen=True)
class Import:
    """One name that a module imports from the package.

    Attributes
    ----------
    module : str
        The module that imports.
    source : str
        Room or file that it names.
    name : str
    line : int
    """

    module: str
    source: str
    name: str
    line: int

    def __str__(self) -> str:
        return f"{self.module}:{self.line} imports {self.name} from {self.source}"


def modules() -> dict[str, Path]:
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = ("stancoreset", *path.relative_to(PACKAGE).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()
ROOMS = {name for name, path in MODULES.items() if path.name == "__init__.py"}


@cache
def imports() -> tuple[Import, ...]:
    return tuple(found for module in MODULES for found in imports_of(module))


def imports_of(module: str) -> Iterator[Import]:
    for node in ast.walk(ast.parse(MODULES[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}:{node.lineno} is a relative import"
            if node.module is not None and node.module.split(".")[0] == "stancoreset":
                for alias in node.names:
                    yield Import(module, node.module, alias.name, node.lineno)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "stancoreset":
                    yield Import(module, alias.name, "", node.lineno)


def room_of(module: str) -> str:
    """The room that a module stands in; a room's ``__init__`` stands in the room."""
    return module if module in ROOMS else module.rpartition(".")[0]


def target(found: Import) -> str:
    """The module that is imported: the source, or what it has of this name, if that is one."""
    within = f"{found.source}.{found.name}"
    return within if within in MODULES and within not in handed_out(found.source) else found.source


@cache
def handed_out(room: str) -> dict[str, str]:
    """What a room's ``__init__`` imports: name and the file that it comes from."""
    own = (i for i in imports() if i.module == room)
    return {f"{room}.{i.name}": i.source for i in own if f"{i.source}.{i.name}" not in MODULES}


def floor(module: str) -> int:
    parts = module.split(".")
    if len(parts) == 1:
        return -1
    return FLOORS.index(parts[1]) if parts[1] in FLOORS else len(FLOORS)


def inside(module: str, room: str) -> bool:
    return module == room or module.startswith(f"{room}.")


def public(room: str) -> set[str]:
    """The literal ``__all__`` of a module."""
    for node in ast.parse(MODULES[room].read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    return set()


def test_every_room_is_on_a_floor():
    tops = {name.split(".")[1] for name in ROOMS if name.count(".") == 1}
    assert tops == set(FLOORS)


def test_no_import_goes_upwards():
    upwards = [
        str(i) for i in imports() if i.module not in DOORS and floor(target(i)) < floor(i.module)
    ]
    assert not upwards, "\n".join(upwards)


def test_a_room_is_entered_by_its_door():
    """From outside a room, only what its ``__init__`` hands out."""
    past = []
    for i in imports():
        # Nothing is outside the package, and a file may import those of the rooms around it.
        room = room_of(i.source)
        if room == "stancoreset" or inside(room_of(i.module), room):
            continue
        if i.source not in ROOMS:
            past.append(str(i))
        elif f"{i.source}.{i.name}" not in ROOMS and i.name not in public(i.source):
            past.append(f"{i}, which hands out no such name")
    assert not past, "\n".join(past)


def test_no_room_imports_from_its_own_door():
    inner = [
        str(i)
        for i in imports()
        if i.module not in ROOMS
        and i.source in ROOMS
        and i.source != "stancoreset"
        and inside(i.module, i.source)
        and target(i) == i.source
    ]
    assert not inner, "\n".join(inner)


@pytest.mark.parametrize("room", sorted(ROOMS))
def test_no_circle(room):
    """Among the files and rooms that stand side by side in a room."""
    arrows: dict[str, set[str]] = {}
    for i in imports():
        one, two = beside(i.module, room), beside(target(i), room)
        if one and two and one != two and room not in (i.module, target(i)):
            arrows.setdefault(one, set()).add(two)
    order: list[str] = []
    while arrows:
        free = [name for name, to in arrows.items() if not to & arrows.keys()]
        assert free, f"a circle among {sorted(arrows)}: {arrows}"
        order += free
        arrows = {name: to for name, to in arrows.items() if name not in free}


def beside(module: str, room: str) -> str:
    """The file or room directly in `room` that a module belongs to; empty if it is elsewhere."""
    if not module.startswith(f"{room}."):
        return ""
    return ".".join(module.split(".")[: room.count(".") + 2])


@pytest.mark.parametrize("room", sorted(ROOMS - {"stancoreset"}))
def test_a_room_says_what_it_is_for(room):
    text = ast.get_docstring(ast.parse(MODULES[room].read_text(encoding="utf-8"))) or ""
    assert "May import" in text
    assert "ands out" in text


@pytest.mark.parametrize("room", sorted(ROOMS))
def test_what_a_room_hands_out_is_there(room):
    imported = {i.name for i in imports() if i.module == room}
    within = {name.rpartition(".")[2] for name in MODULES if name.rpartition(".")[0] == room}
    assert public(room) <= imported | within | {"__version__"}
