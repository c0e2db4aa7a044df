"""One name, one thing: classes of the source tree."""

import ast
from collections import Counter
from pathlib import Path

import aide

SOURCE = Path(aide.__file__).parent


def class_names(texts):
    """The name of every class statement in Python texts."""
    return [
        node.name
        for text in texts
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ClassDef)
    ]


def names_that_occur_twice(names):
    return {name for name, count in Counter(names).items() if count > 1}


def test_no_two_classes_have_the_same_name():
    names = class_names(path.read_text() for path in sorted(SOURCE.rglob("*.py")))
    assert len(names) > 200
    assert names_that_occur_twice(names) == set()


def test_a_second_class_of_the_same_name_is_found():
    names = class_names(["class A: ...", "def f():\n    class A: ...", "class B: ..."])
    assert names_that_occur_twice(names) == {"A"}
