"""A formula as text: for people, with the names of its operands, and as cells of a spreadsheet.

Both come from the operations of one run, so they are the formula that engines compute. Operations
that are needed more than once, and very long ones, are steps with a text of their own.
"""

import ast
import functools
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fleetcube.kernels.elementary import numpy
from fleetcube.kernels.graph.formulas import Function, parameters
from fleetcube.kernels.graph.trace import LIGHT, LOOPS, Trace, Value, written

INFINITE = 1e100  # stands for infinity in cells, which hold none
_READ = 240  # characters of a text that a person reads
_LONGEST = 1500  # of a text without steps; Excel takes 8,192 characters
_DEEPEST = 20  # of functions inside each other, in a text without steps
_LEVEL: dict[type[ast.operator], int] = {ast.Add: 1, ast.Sub: 1, ast.Mult: 2, ast.Div: 2}
_SIGNS: dict[type[ast.AST], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
_SIGNS |= {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "=", ast.NotEq: "<>"}
_FUNCTIONS = {
    **{"abs": "ABS({0})", "sqrt": "SQRT({0})", "floor": "INT({0})", "ceil": "-INT(-({0}))"},
    **{"exp": "EXP({0})", "log": "LN({0})", "log2": "(LN({0})/LN(2))"},
    **{"cbrt": "(SIGN({0})*ABS({0})^(1/3))", "max": "MAX({0},{1})", "min": "MIN({0},{1})"},
    # near 0, where differences from 1 lose digits, four terms of the series
    "log1p": "IF(ABS({0})<1E-4,({0})*(1-({0})*(1/2-({0})*(1/3-({0})/4))),LN(1+({0})))",
    "expm1": "IF(ABS({0})<1E-4,({0})*(1+({0})/2*(1+({0})/3*(1+({0})/4))),EXP({0})-1)",
}


@dataclass(frozen=True)
class Expression:
    """A formula's result, and the steps before it, in order; all over names."""

    steps: Mapping[str, ast.expr]
    result: ast.expr

    @property
    def texts(self) -> dict[str, str]:
        """The steps as people write them."""
        return {name: ast.unparse(tree) for name, tree in self.steps.items()}

    @property
    def text(self) -> str:
        return ast.unparse(self.result)

    @property
    def is_short(self) -> bool:
        """Whether a person reads the text; of a longer formula, the docstring's is shown."""
        return not self.steps and len(self.text) <= _READ

    def values(self, operands: Mapping[str, float]) -> dict[str, float]:
        """The operands and the steps; see `value`."""
        values = dict(operands)
        for name, tree in self.steps.items():
            values[name] = value(tree, values)
        return values


@functools.cache
def expression(formula: Function) -> Expression:
    """The operations of a formula, those needed once put into what needs them."""
    trace = Trace()
    result = trace.run(formula, [Value(trace, name) for name in parameters(formula)])
    trees = {name: _tree(each.text) for name, each in trace.operations.items()}
    whole = _tree(written(result))
    uses = Counter(
        node.id
        for tree in (*trees.values(), whole)
        for node in ast.walk(tree)
        if isinstance(node, ast.Name)
    )
    inside: dict[str, ast.expr] = {}
    steps: dict[str, ast.expr] = {}
    for name, tree in trees.items():
        tree = _Inlined(inside).visit(tree)
        short = len(ast.unparse(tree)) < _LONGEST and _depth(tree) < _DEEPEST
        (inside if uses[name] == 1 and short else steps)[name] = tree
    return Expression(steps, _Inlined(inside).visit(whole))


def value(tree: ast.expr, values: Mapping[str, float]) -> float:
    """A text's value, with the engines' functions."""
    scope = {name: getattr(numpy, name) for name in (*LOOPS, *LIGHT)}
    scope |= {"max": numpy.maximum, "min": numpy.minimum, "inf": math.inf, "nan": math.nan}
    code = compile(ast.fix_missing_locations(ast.Expression(tree)), "", "eval")
    with np.errstate(all="ignore"):
        return float(eval(code, scope, {name: np.float64(each) for name, each in values.items()}))


def cell(tree: ast.expr, places: Mapping[str, str], values: Mapping[str, float]) -> str:
    """A text as a spreadsheet computes it, without "=". `places` are the cells of its names,
    `values` their values now: where an operation has an infinite value, its cell allows for it."""
    return _Cell(places, values).text(tree)


def finite(quantity: float) -> float:
    return math.copysign(min(abs(quantity), INFINITE), quantity)


def number(quantity: float) -> str:
    """A number as a cell writes it."""
    if quantity != quantity:
        return "NA()"
    quantity = finite(quantity)
    whole = quantity.is_integer() and abs(quantity) < 1e15
    return str(int(quantity)) if whole else repr(quantity).upper()


def _depth(tree: ast.AST) -> int:
    """Functions inside each other, of which Excel takes 64."""
    inner = max(map(_depth, ast.iter_child_nodes(tree)), default=0)
    return inner + isinstance(tree, ast.Call | ast.IfExp | ast.BoolOp | ast.Compare)


def _tree(text: str) -> ast.expr:
    tree: ast.expr = _Plain().visit(ast.parse(text, mode="eval").body)
    return tree


class _Plain(ast.NodeTransformer):
    """The trace's Python as people write it."""

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        assert isinstance(node.func, ast.Name)
        if node.func.id == "select":
            return ast.IfExp(*node.args)
        node.func.id = {"maximum": "max", "minimum": "min"}.get(node.func.id, node.func.id)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.op, ast.BitAnd | ast.BitOr):
            both = ast.And() if isinstance(node.op, ast.BitAnd) else ast.Or()
            left = node.left
            if isinstance(left, ast.BoolOp) and type(left.op) is type(both):
                return ast.BoolOp(both, [*left.values, node.right])
            return ast.BoolOp(both, [left, node.right])
        if isinstance(node.op, ast.Mult) and ast.unparse(node.left) == "1":
            return node.right
        chooses = isinstance(node.left, ast.Call) and ast.unparse(node.right) == "0"
        return node.left if chooses and isinstance(node.op, ast.Add) else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        return ast.Name(node.attr, ast.Load())  # np.inf, np.nan

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        whole = isinstance(node.value, float) and node.value.is_integer() and node.value < 1e15
        return ast.Constant(int(node.value)) if whole else node  # type: ignore[arg-type]


class _Inlined(ast.NodeTransformer):
    def __init__(self, inside: Mapping[str, ast.expr]) -> None:
        self.inside = inside

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.inside.get(node.id, node)


@dataclass(frozen=True)
class _Cell:
    places: Mapping[str, str]
    values: Mapping[str, float]

    def text(self, tree: ast.expr, level: int = 0) -> str:
        """The tree's number, in brackets where it would be read otherwise at a level."""
        written = self._number(tree)
        if not isinstance(tree, ast.BinOp | ast.Call) or not math.isinf(value(tree, self.values)):
            weak = isinstance(tree, ast.BinOp) and _LEVEL[type(tree.op)] < level
            return f"({written})" if weak else written
        return f"IFERROR({written},{number(value(tree, self.values))})"

    def _number(self, tree: ast.expr) -> str:
        match tree:
            case ast.Constant():
                return number(float(tree.value))  # type: ignore[arg-type]
            case ast.Name():
                return self.places.get(tree.id) or number(float(tree.id))
            case ast.UnaryOp(operand=operand):
                return f"(-{self.text(operand, 3)})"
            case ast.BinOp(left=left, op=op, right=right):
                level_here = _LEVEL[type(op)]
                strong = level_here + isinstance(op, ast.Sub | ast.Div)
                below = self.text(right, strong)
                written = f"{self.text(left, level_here)}{_SIGNS[type(op)]}{below}"
                if isinstance(op, ast.Div) and math.isinf(value(right, self.values)):
                    return f"IF(ABS({below})>={INFINITE / 10:.0E},0,{written})"
                return written
            case ast.Call(func=ast.Name(id=name), args=args):
                return _FUNCTIONS[name].format(*map(self.text, args))
            case ast.IfExp(test=test, body=body, orelse=other):
                return f"IF({self._condition(test)},{self.text(body)},{self.text(other)})"
            case _:
                return f"IF({self._condition(tree)},1,0)"

    def _condition(self, tree: ast.expr) -> str:
        match tree:
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                if ast.dump(left) == ast.dump(right):  # how formulas recognize NaN
                    failed = f"ISERROR({self.text(left)})"
                    return failed if isinstance(op, ast.NotEq) else f"NOT({failed})"
                return f"{self.text(left)}{_SIGNS[type(op)]}{self.text(right)}"
            case ast.BoolOp(op=op, values=values):
                both = "AND" if isinstance(op, ast.And) else "OR"
                return f"{both}({','.join(map(self._condition, values))})"
            case _:
                return f"{self.text(tree)}<>0"
