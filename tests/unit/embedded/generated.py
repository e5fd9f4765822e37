"""Generates small programs from a number. Each ends, raises nothing, and prints its variables."""

from random import Random

NAMES = ("a", "b", "c", "d")


class Writer:
    def __init__(self, number):
        self.random = Random(number)
        self.lines = ["a, b, c, d = 3, -7, 12, 5", "x, y = [4, 1, 9], {'k': 2, 3: 'v'}", "s, f = 'text', 2.5"]

    def number(self, depth=2):
        pick = self.random.randrange
        if depth == 0 or pick(3) == 0:
            return str(pick(100)) if pick(2) else NAMES[pick(4)]
        left, right = self.number(depth - 1), self.number(depth - 1)
        match pick(10):
            case 0:
                return f"({left} // ({right} or 1))"
            case 1:
                return f"({left} % ({right} or 7))"
            case 2:
                return f"({left} if {left} < {right} else -({right}))"
            case 3:
                return f"len(x) + x[({left}) % len(x)]"
            case 4:
                return f"max({left}, {right}, key=lambda v: -v)"
            case 5:
                return f"sum([v * {right} for v in x if v != {left}])"
            case 6:
                return f"g({left}, {right})"
            case _:
                return f"({left} {'+-*&|^'[pick(6)]} {right})"

    def statement(self, indent):
        pick, pad = self.random.randrange, "    " * indent
        name = NAMES[pick(4)]
        match pick(12):
            case 0:
                self.lines += [
                    f"{pad}for i in range({pick(6)}):",
                    f"{pad}    {name} = ({name} + i * {pick(9)}) % 1000003",
                ]
            case 1:
                self.lines += [f"{pad}n = {pick(5)}", f"{pad}while n > 0:", f"{pad}    n -= 1", f"{pad}    {name} += n"]
            case 2:
                self.lines += [
                    f"{pad}if {self.number()} > {self.number()}:",
                    f"{pad}    {name} -= 1",
                    f"{pad}else:",
                    f"{pad}    {name} ^= 5",
                ]
            case 3:
                self.lines.append(f"{pad}x.append(({self.number()}) % 97)")
            case 4:
                self.lines.append(
                    f"{pad}y[{name} % 10] = y.get({name} % 10, 0) if type(y.get({name} % 10)) is int else {pick(50)}"
                )
            case 5:
                self.lines.append(f"{pad}s = (s + str({name} % 100)).replace('{pick(10)}', 'q')[-40:].upper()")
            case 6:
                self.lines.append(f"{pad}f = f * 0.5 + ({name} % 100) / 7")
            case 7:
                self.lines += [
                    f"{pad}try:",
                    f"{pad}    {name} = x[{pick(40)}] + [][{name} % 2]",
                    f"{pad}except IndexError as e:",
                ]
                self.lines += [f"{pad}    {name} += len(str(e))", f"{pad}finally:", f"{pad}    b %= 1009"]
            case 8:
                self.lines.append(f"{pad}x = sorted(x, key=lambda v: (v % 3, -v))[:12] + [{name} % 5] * {pick(3)}")
            case 9:
                self.lines.append(f"{pad}{name} = ({name} << {pick(40)}) % {pick(10**6) + 1} + int(f'{{a % 7:03d}}')")
            case _:
                self.lines.append(f"{pad}{name} = ({self.number(3)}) % 1000003")

    def program(self):
        self.lines += [
            "def g(p, q=2):",
            "    def h(r):",
            "        return r + p",
            "    return h(q) % 101 if p else sum(k for k in range(q % 5))",
        ]
        for _ in range(self.random.randrange(5, 25)):
            self.statement(0)
        self.lines.append("def w():")
        self.lines += ["    global a, b, c, d, x, y, s, f"]
        for _ in range(self.random.randrange(3, 12)):
            self.statement(1)
        self.lines += ["w()", "print(a, b, c, d, x, sorted(y.items(), key=str), s, round(f, 6))"]
        return "\n".join(self.lines)


def program(number):
    return Writer(number).program()
