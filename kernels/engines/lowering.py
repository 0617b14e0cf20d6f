"""Kernels in LLVM's language: the statements that `codegen` and `loops` write, and no other Python.

numba's front end is made for any Python, and took four fifths of the time of a first evaluation. A
kernel needs assignments, loops over ranges, choices between whole numbers, and the operations
below; it is still Python that can be read. Buffers are marked as memory that no operand or output
shares, so that LLVM vectorises without checks at run time.
"""

import ast
import struct
from collections.abc import Iterator, Sequence

from ..elementary import FRACTION, INSTRUCTIONS, ONE, RAISED, TWO_TO_52, WIDTH

LINE = 64  # bytes of a cache line
# Annotations of parameters: a pointer to numbers ends in *, one into the buffers in &
KINDS = {"word": "i64", "words": "i64*", "loops": "ptr", "room": "double&"}
KINDS |= {"float64s": "double*", "float32s": "float*", "int8s": "i8*"}
_NUMBERS = {"float64": "double", "float32": "float", "int8": "i8"}
_BYTES = {"double": 8, "float": 4, "i8": 1}
_FIRST = {"maximum": "oge", "minimum": "ole"}
_COMPUTED: dict[str, dict[type[ast.AST], str]] = {
    "double": {
        **{ast.Add: "fadd", ast.Sub: "fsub", ast.Mult: "fmul", ast.Div: "fdiv"},
        **{ast.Eq: "fcmp oeq", ast.NotEq: "fcmp une", ast.Lt: "fcmp olt", ast.LtE: "fcmp ole"},
    },
    "i64": {
        **{ast.Add: "add nsw", ast.Sub: "sub nsw", ast.Mult: "mul nsw", ast.Mod: "srem"},
        **{ast.FloorDiv: "sdiv", ast.Eq: "icmp eq"},
    },
    "i1": {ast.BitAnd: "and", ast.BitOr: "or", ast.Eq: "icmp eq", ast.NotEq: "icmp ne"},
}
_CONVERTED = {("i1", "double"): "uitofp", ("i1", "float"): "uitofp", ("i1", "i8"): "zext"}
_CONVERTED |= {("double", "float"): "fptrunc", ("double", "i8"): "fptosi"}
_DECLARED = [f"declare double @llvm.{name}.f64(double)" for name in INSTRUCTIONS.values()]
_LAST = """\
!0 = distinct !{!0}
!1 = distinct !{!1, !0}
!2 = !{!1}
!3 = !{i32 1}
"""

Value = tuple[str, str]  # its kind, and its text


def lowered(source: str) -> str:
    """A module of the functions of a source; `kernel` can be called from outside."""
    functions = ast.parse(source).body
    return "\n".join([*(_Function(each).text for each in functions), *_DECLARED, _LAST])  # type: ignore[arg-type]


class _Function:
    """One function as it is written; values of Python's names are known when they are read."""

    def __init__(self, node: ast.FunctionDef) -> None:
        self.lines: list[str] = []
        self.count = 0
        self.names: dict[str, Value] = {}
        heads = []
        for argument in node.args.args:
            kind = KINDS[ast.unparse(argument.annotation)]  # type: ignore[arg-type]
            self.names[argument.arg] = kind, f"%{argument.arg}"
            heads.append(f"{_type(kind)} %{argument.arg}")
        # what changes lies on the stack until LLVM takes it into registers
        self.slots = dict.fromkeys(map(_changed, ast.walk(node)))
        self.slots.pop("", None)
        self.lines += [f"  %_{name} = alloca i64" for name in self.slots]
        self._block(node.body)
        link = "" if node.name == "kernel" else "internal "
        head = f"define {link}void @{node.name}({', '.join(heads)})"
        self.text = "\n".join([f"{head} noinline {{", *self.lines, "  ret void", "}"])

    def _block(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            match statement:
                case ast.Assign(targets=[target]):
                    self._assign(target, self._value(statement.value))
                case ast.AugAssign(target=target):
                    read = self._value(target)
                    operand = self._value(statement.value)
                    self._assign(target, self._computed(statement.op, read, operand))
                case ast.For(target=ast.Name(id=name), iter=ast.Call(args=bounds)):
                    self._loop(name, [self._value(bound) for bound in bounds], statement.body)
                case ast.If():
                    self._branch(self._value(statement.test), statement.body)
                case ast.Expr():
                    self._value(statement.value)

    def _assign(self, target: ast.expr, value: Value) -> None:
        if isinstance(target, ast.Subscript):
            kind, place = self._place(target)
            number = self._as(value, kind[:-1])[1]
            self.lines.append(f"  store {kind[:-1]} {number}, ptr {place}{_alias_scope(kind)}")
        elif (name := ast.unparse(target)) in self.slots:
            self.lines.append(f"  store i64 {value[1]}, ptr %_{name}")
        else:
            self.names[name] = value

    def _loop(self, name: str, bounds: list[Value], body: Sequence[ast.stmt]) -> None:
        start, stop = bounds[:2] if len(bounds) > 1 else (("i64", "0"), bounds[0])
        step = bounds[2][1] if len(bounds) > 2 else "1"
        head, inside, after = self._labels(3)
        self.lines += [f"  store i64 {start[1]}, ptr %_{name}", f"  br label %{head}", f"{head}:"]
        counter = self._emitted("i64", f"load i64, ptr %_{name}")[1]
        goes_on = self._emitted("i1", f"icmp slt i64 {counter}, {stop[1]}")[1]
        self.lines += [f"  br i1 {goes_on}, label %{inside}, label %{after}", f"{inside}:"]
        self._block(body)
        further = self._emitted("i64", f"add nsw i64 {counter}, {step}")[1]
        self.lines += [f"  store i64 {further}, ptr %_{name}", f"  br label %{head}", f"{after}:"]

    def _branch(self, test: Value, body: Sequence[ast.stmt]) -> None:
        inside, after = self._labels(2)
        self.lines += [f"  br i1 {test[1]}, label %{inside}, label %{after}", f"{inside}:"]
        self._block(body)
        self.lines += [f"  br label %{after}", f"{after}:"]

    def _value(self, node: ast.expr) -> Value:
        match node:
            case ast.Name(id=name) if name in self.slots:
                return self._emitted("i64", f"load i64, ptr %_{name}")
            case ast.Name(id=name):
                return self.names[name]
            case ast.Constant(value=bool() as flag):
                return "i1", str(flag).lower()
            case ast.Constant(value=int() as whole):
                return "i64", str(whole)
            case ast.Constant(value=float() as number):
                return "double", _written(number)
            case ast.Attribute(attr=name):  # np.inf, np.nan
                return "double", _written(float(name))
            case ast.UnaryOp(operand=operand):
                return self._emitted("double", f"fneg double {self._number(operand)}")
            case ast.BinOp(left=left, right=right):
                return self._computed(node.op, self._value(left), self._value(right))
            case ast.Compare(left=left, comparators=[right]):
                return self._computed(node.ops[0], self._value(left), self._value(right))
            case ast.Subscript():
                kind, place = self._place(node)
                return self._emitted(
                    kind[:-1], f"load {kind[:-1]}, ptr {place}{_alias_scope(kind)}"
                )
            case ast.Call(func=ast.Name(id=name), args=arguments):
                return self._called(name, arguments)
        raise NotImplementedError(ast.unparse(node))

    def _computed(self, op: ast.AST, left: Value, right: Value) -> Value:
        same = left[0] if left[0] == right[0] else "double"
        a, b = (self._as(value, same)[1] for value in (left, right))
        how = _COMPUTED[same][type(op)]  # of flags no arithmetic: NumPy's differs
        kind = "i1" if "cmp" in how else same
        return self._emitted(kind, f"{how} {same} {a}, {b}")

    def _called(self, name: str, nodes: Sequence[ast.expr]) -> Value:
        if name in _NUMBERS:
            return self._as(self._value(nodes[0]), _NUMBERS[name])
        if name in INSTRUCTIONS:
            code = f"@llvm.{INSTRUCTIONS[name]}.f64(double {self._number(nodes[0])})"
            return self._emitted("double", f"call double {code}")
        if name in ("pointer", "part"):
            table, place = self._value(nodes[0]), self._value(nodes[1])
            to = _NUMBERS[ast.unparse(nodes[2])]
            kind, address = self._after(table, place)
            if name == "part":
                return f"{to}&", address
            return self._emitted(f"{to}*", f"load ptr, ptr {address}{_alias_scope(kind)}")
        values = [self._value(node) for node in nodes]
        if name in _FIRST:
            return self._first(_FIRST[name], *values)
        operation = getattr(self, f"_{name}", None)
        if operation is not None:
            return operation(*values)  # type: ignore[no-any-return]
        given = ", ".join(f"{_type(kind)} {text}" for kind, text in values)
        self.lines.append(f"  call void @{name}({given})")
        return "", ""

    def _min(self, a: Value, b: Value) -> Value:
        less = self._emitted("i1", f"icmp slt i64 {a[1]}, {b[1]}")[1]
        return self._emitted("i64", f"select i1 {less}, i64 {a[1]}, i64 {b[1]}")

    def _select(self, condition: Value, yes: Value, no: Value) -> Value:
        kind = "i1" if yes[0] == no[0] == "i1" else "double"
        a, b = (self._as(value, kind)[1] for value in (yes, no))
        test = self._as(condition, "i1")[1]
        return self._emitted(kind, f"select i1 {test}, {kind} {a}, {kind} {b}")

    def _first(self, order: str, left: Value, right: Value) -> Value:
        """The first of two numbers where it is a NaN or the order holds, else the second."""
        a, b = (self._as(value, "double")[1] for value in (left, right))
        holds = self._emitted("i1", f"fcmp {order} double {a}, {b}")[1]
        lost = self._emitted("i1", f"fcmp uno double {a}, {a}")[1]
        either = self._emitted("i1", f"or i1 {lost}, {holds}")[1]
        return self._emitted("double", f"select i1 {either}, double {a}, double {b}")

    def _two_to(self, k: Value) -> Value:
        """2^k of a whole k for which that is a normal number."""
        raised = self._emitted("double", f"fadd double {k[1]}, {_written(RAISED)}")
        return self._of_bits(f"shl i64 {self._bits(raised)}, {WIDTH}")

    def _exponent(self, x: Value) -> Value:
        """The whole k of a normal number between 2^k and 2^(k+1)."""
        upper = self._emitted("i64", f"lshr i64 {self._bits(x)}, {WIDTH}")[1]
        number = self._of_bits(f"or i64 {upper}, {TWO_TO_52}")[1]
        return self._emitted("double", f"fsub double {number}, {_written(RAISED)}")

    def _significand(self, x: Value) -> Value:
        """A normal number over 2^k, between 1 and 2."""
        fraction = self._emitted("i64", f"and i64 {self._bits(x)}, {FRACTION}")[1]
        return self._of_bits(f"or i64 {fraction}, {ONE}")

    def _bits(self, number: Value) -> str:
        return self._emitted("i64", f"bitcast double {number[1]} to i64")[1]

    def _of_bits(self, instruction: str) -> Value:
        return self._emitted(
            "double", f"bitcast i64 {self._emitted('i64', instruction)[1]} to double"
        )

    def _apply(self, loops: Value, which: Value, source: Value, into: Value, size: Value) -> Value:
        """target[:size] = f(source[:size]), f one of `LOOPS`, whose code is at an address."""
        given = f"i64 {which[1]}, ptr {source[1]}, ptr {into[1]}, i64 {size[1]}"
        self.lines.append(f"  call void {loops[1]}({given})")
        return "", ""

    def _missing(self, memory: Value) -> Value:
        """How many numbers come before the next line of the cache."""
        address = self._emitted("i64", f"ptrtoint ptr {memory[1]} to i64")[1]
        back = self._emitted("i64", f"sub i64 0, {address}")[1]
        size = self._emitted("i64", f"and i64 {back}, {LINE - 1}")[1]
        return self._emitted("i64", f"udiv i64 {size}, {_BYTES[memory[0][:-1]]}")

    def _line(self, into: Value, tile: Value) -> Value:
        """Copy a whole line past the cache; its target is aligned."""
        width = _BYTES[into[0][:-1]]
        vector = f"<{LINE // width} x {into[0][:-1]}>"
        text = self._emitted("", f"load {vector}, ptr {tile[1]}, align {width}")[1]
        self.lines.append(f"  store {vector} {text}, ptr {into[1]}, align {LINE}, !nontemporal !3")
        return "", ""

    def _number(self, node: ast.expr) -> str:
        return self._as(self._value(node), "double")[1]

    def _as(self, value: Value, kind: str) -> Value:
        """A value as a number of a kind."""
        if value[0] == kind:
            return value
        if kind == "i1":
            return self._emitted("i1", f"fcmp une double {value[1]}, {_written(0.0)}")
        how = _CONVERTED[value[0], kind]
        return self._emitted(kind, f"{how} {value[0]} {value[1]} to {kind}")

    def _place(self, node: ast.Subscript) -> Value:
        return self._after(self._value(node.value), self._value(node.slice))

    def _after(self, memory: Value, offset: Value) -> Value:
        kind, text = memory
        return self._emitted(
            kind, f"getelementptr inbounds {kind[:-1]}, ptr {text}, i64 {offset[1]}"
        )

    def _emitted(self, kind: str, instruction: str) -> Value:
        self.count += 1
        self.lines.append(f"  %.{self.count} = {instruction}")
        return kind, f"%.{self.count}"

    def _labels(self, count: int) -> Iterator[str]:
        self.count += 1
        return (f"L{self.count}.{k}" for k in range(count))


def _changed(node: ast.AST) -> str:
    """The name that a loop counts with, or that a statement changes in place."""
    by_name = isinstance(node, ast.For | ast.AugAssign) and isinstance(node.target, ast.Name)
    return node.target.id if by_name else ""  # type: ignore[attr-defined]


def _type(kind: str) -> str:
    return "ptr" if kind[-1] in "*&" else kind


def _alias_scope(kind: str) -> str:
    """The alias scope of an access: buffers lie apart from all other memory."""
    return f", !{'alias.scope' if kind[-1] == '&' else 'noalias'} !2"


def _written(number: float) -> str:
    return f"0x{struct.unpack('>Q', struct.pack('>d', number))[0]:016X}"
