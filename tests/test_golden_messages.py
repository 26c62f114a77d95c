"""Each recorded message is of a test that exists."""

import ast

from tests.golden_messages import ROOT, read_messages


def test_recorded_messages_are_of_tests_that_exist():
    for name in read_messages():
        file, _, test = name.partition("::")
        functions = {
            node.name
            for node in ast.walk(ast.parse((ROOT / file).read_text(encoding="utf-8")))
            if isinstance(node, ast.FunctionDef)
        }
        assert test.partition("[")[0] in functions, name
