"""One name, one meaning: no two classes share a name, and no two functions on one call stack."""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import duly
from tests.support.call_graph import Module, call_graph, read_package

SOURCES = Path(duly.__file__).parent


@pytest.fixture(scope="module")
def modules() -> Mapping[str, Module]:
    """Return the modules of duly."""
    return read_package(SOURCES)


def test_no_two_classes_have_one_name(modules: Mapping[str, Module]) -> None:
    count = Counter(name for module in modules.values() for name in module.classes)
    assert [name for name, times in count.items() if times > 1] == []


def test_a_name_is_twice_on_a_call_stack_only_where_a_function_hands_over_to_the_layer_below(
    modules: Mapping[str, Module],
) -> None:
    stacks = list(find_stacks_with_a_name_twice(call_graph(modules)))
    assert not stacks, "\n".join(stacks)


def find_stacks_with_a_name_twice(graph: Mapping[str, set[str]]) -> Iterator[str]:
    """Yield the calls between two functions of one name, unless the first calls the second itself."""
    count = Counter(map(short_name, graph))
    for first in graph:
        if count[short_name(first)] > 1:
            callers = find_callers(graph, first)
            for last in callers:
                path = trace_path(callers, last)
                if short_name(last) == short_name(first) and len({*map(short_name, path)}) > 1:
                    yield " > ".join(path)


def find_callers(graph: Mapping[str, set[str]], first: str) -> Mapping[str, str]:
    """Map each function that is reached from the first one to its caller on the shortest path."""
    callers, waiting = dict[str, str](), [first]
    for caller in waiting:
        for callee in sorted(graph[caller] - callers.keys() - {first}):
            callers[callee] = caller
            waiting.append(callee)
    return callers


def trace_path(callers: Mapping[str, str], last: str) -> list[str]:
    """Return the path from the first function to this one."""
    path = [last]
    while path[0] in callers:
        path.insert(0, callers[path[0]])
    return path


def short_name(function: str) -> str:
    """Return the name that a traceback shows."""
    return function.rpartition(":")[2].rpartition(".")[2]
