"""Classic BPF: a decision graph, and its layout as a seccomp program.

A program is a graph of nodes that share equal tails. Nodes are numbered in the order of their creation, so a node's
successors are always older. The layout writes the oldest node first, which is the end of the program, and the newest
last, which is its start. Every jump goes forward, so its distance is known when it is written.
"""

import struct
from typing import NamedTuple

# Opcodes (linux/bpf_common.h).
LOAD = 0x20  # A = 32-bit word of struct seccomp_data at offset k
AND = 0x54  # A &= k
JUMP = 0x05
IF_EQ = 0x15
IF_GT = 0x25
IF_GE = 0x35
RETURN = 0x06

MAX_INSTRUCTIONS = 4096  # BPF_MAXINSNS
_REACH = 255  # a conditional jump has eight bits of distance
_INSTRUCTION = struct.Struct("<HBBI")

Node = int


class _Spec(NamedTuple):
    code: int
    k: int
    yes: Node = -1
    no: Node = -1


class Graph:
    """Build nodes; equal nodes become the same node."""

    def __init__(self) -> None:
        """Start without nodes."""
        self._specs: list[_Spec] = []
        self._known: dict[_Spec, Node] = {}

    def returns(self, action: int) -> Node:
        """Stop with this action."""
        return self._node(_Spec(RETURN, action))

    def load(self, offset: int, then: Node) -> Node:
        """Load a word of the call's data, then continue with ``then``."""
        return self._node(_Spec(LOAD, offset, then))

    def mask(self, mask: int, then: Node) -> Node:
        """Keep only some bits of the loaded word, then continue with ``then``."""
        return self._node(_Spec(AND, mask, then))

    def branch(self, code: int, k: int, yes: Node, no: Node) -> Node:
        """Compare the loaded word with `k`. A branch whose two outcomes are equal becomes that outcome."""
        return yes if yes == no else self._node(_Spec(code, k, yes, no))

    def assemble(self, root: Node) -> bytes:
        """Return the program that starts at `root`."""
        layout = _Layout(self._specs)
        for node in self._reachable(root):
            layout.write(node)
        if len(layout.instructions) > MAX_INSTRUCTIONS:
            size = len(layout.instructions)
            raise ValueError(f"the filter needs {size} instructions, the limit is {MAX_INSTRUCTIONS}")
        return b"".join(_INSTRUCTION.pack(*parts) for parts in reversed(layout.instructions))

    def _node(self, spec: _Spec) -> Node:
        node = self._known.setdefault(spec, len(self._specs))
        if node == len(self._specs):
            self._specs.append(spec)
        return node

    def _reachable(self, root: Node) -> list[Node]:
        wanted = {root}
        for node in range(root, -1, -1):
            if node in wanted:
                wanted.update(child for child in self._specs[node][2:] if child >= 0)
        return sorted(wanted)


class _Layout:
    """Write instructions from the last to the first; a position counts from the end."""

    def __init__(self, specs: list[_Spec]) -> None:
        self.instructions: list[tuple[int, int, int, int]] = []
        self._specs = specs
        self._position: dict[Node, int] = {}

    def write(self, node: Node) -> None:
        code, k, yes, no = self._specs[node]
        if code == RETURN:
            self._put(node, (RETURN, 0, 0, k))
        elif code in (LOAD, AND):
            self._bring_near(yes, 0)
            self._put(node, (code, 0, 0, k))
        else:
            self._bring_near(yes, _REACH - 1)  # a stand-in for the other may push this one further by one
            self._bring_near(no, _REACH)
            self._put(node, (code, self._distance(yes), self._distance(no), k))

    def _put(self, node: Node, instruction: tuple[int, int, int, int]) -> None:
        self._position[node] = len(self.instructions)
        self.instructions.append(instruction)

    def _distance(self, node: Node) -> int:
        return len(self.instructions) - self._position[node] - 1

    def _bring_near(self, node: Node, reach: int) -> None:
        """If `node` is out of reach, put a stand-in for it here: a jump, or a copy of a return."""
        distance = self._distance(node)
        if distance <= reach:
            return
        spec = self._specs[node]
        is_return = spec.code == RETURN
        self._put(node, (RETURN, 0, 0, spec.k) if is_return else (JUMP, 0, 0, distance))
