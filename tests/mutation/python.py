"""Mutations of Python: comparisons, conditions, constants, and statements that go."""

import ast
from collections.abc import Iterator

from mutation.sql import Mutation

COMPARISONS = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip
OPERATORS = {ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.FloorDiv: "*"}
SWAPPED = {"min": "max", "max": "min", "any": "all", "all": "any"}


class Finder(ast.NodeVisitor):
    """Finds what can be changed; ``found`` has start, end, new text and rule."""

    def __init__(self, source: str) -> None:
        self.source = source.encode()
        self.lines = [0]
        for line in self.source.splitlines(keepends=True):
            self.lines.append(self.lines[-1] + len(line))
        self.found: list[tuple[int, int, str, str]] = []

    def begin(self, node: ast.AST) -> int:
        return self.lines[node.lineno - 1] + node.col_offset

    def end(self, node: ast.AST) -> int:
        return self.lines[node.end_lineno - 1] + node.end_col_offset

    def text(self, node: ast.AST) -> str:
        return self.source[self.begin(node) : self.end(node)].decode()

    def replace(self, node: ast.AST, new: str, rule: str) -> None:
        self.found.append((self.begin(node), self.end(node), new, rule))

    def visit_Compare(self, node: ast.Compare) -> None:
        terms = [node.left, *node.comparators]
        for number, operator in enumerate(node.ops):
            start, end = self.end(terms[number]), self.begin(terms[number + 1])
            while self.source[end - 1 : end] == b"(":
                end -= 1
            old = self.source[start:end].decode()
            if ")" not in old and "\n" not in old:
                new = COMPARISONS[type(operator)]
                self.found.append((start, end, f" {new} ", "comparison"))
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        for dropped in node.values:
            kept = [self.text(value) for value in node.values if value is not dropped]
            word = " and " if isinstance(node.op, ast.And) else " or "
            self.replace(node, f"({word.join(f'({text})' for text in kept)})", "operand")
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self.replace(node, f"({self.text(node.operand)})", "not")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        new = OPERATORS.get(type(node.op))
        strings = any(
            isinstance(side, ast.Constant | ast.JoinedStr) and not is_number(side)
            for side in (node.left, node.right)
        )
        if new and not strings:
            self.replace(
                node, f"({self.text(node.left)} {new} {self.text(node.right)})", "operator"
            )
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self.replace(node, str(not node.value), "constant")
        elif is_number(node):
            self.replace(node, f"({node.value + 1})", "constant")

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in SWAPPED:
            self.replace(node.func, SWAPPED[node.func.id], "function")
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self.replace(node.test, f"(not ({self.text(node.test)}))", "condition")
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        if "TYPE_CHECKING" in self.text(node.test):
            return
        self.replace(node.test, f"(not ({self.text(node.test)}))", "condition")
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        self.replace(node.test, "False", "condition")
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call):
            self.replace(node, "pass", "statement")
            self.generic_visit(node.value)

    def visit_Raise(self, node: ast.Raise) -> None:
        self.replace(node, "pass", "statement")
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.replace(node, "pass", "statement")
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        if isinstance(node.targets[0], ast.Attribute):
            self.replace(node, "pass", "statement")
        self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        # What the decorators of a class forbid, like changes of its objects, is not tried by code.
        for statement in node.body:
            self.visit(statement)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for decorator in node.decorator_list:
            if self.text(decorator) == "idempotent":
                self.replace(decorator, "(lambda view: view)", "decorator")
        for statement in node.body:
            self.visit(statement)
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self.visit(default)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        # Annotations do nothing when they run.
        if node.value is not None:
            self.visit(node.value)

    def visit_Assert(self, node: ast.Assert) -> None:
        """Leave assertions alone."""


def is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def mutations(file: str, source: str) -> Iterator[Mutation]:
    """Yield all mutations of one module."""
    finder = Finder(source)
    finder.visit(ast.parse(source))
    ascii_before = [len(finder.source[:start].decode()) for start, *_ in finder.found]
    for start, (begin, end, new, rule) in zip(ascii_before, finder.found, strict=True):
        length = len(finder.source[begin:end].decode())
        line = finder.source.count(b"\n", 0, begin) + 1
        yield Mutation(file, start, start + length, new, rule, line)
