"""Rules for the calls that name a user or a group, for a guest whose user namespace maps one id.

The kernel answers EINVAL for an id that no mapping names (user_namespaces(7)). Without a user namespace it answers
EPERM, which programs expect: ``cp -p``, installers, ``shutil`` of Python. The rules change only the errno of a call.
"""

import itertools
from collections.abc import Mapping

from stockade.linux.seccomp.table import Rule, allow_if, low

_UNCHANGED = 0xFFFF_FFFF  # -1: the call leaves this id as it is
_NAMING = {
    (0,): "setuid setgid",
    (0, 1): "setreuid setregid",
    (0, 1, 2): "setresuid setresgid",
    (1, 2): "chown fchown lchown",
    (2, 3): "fchownat",
}
"""The numbers of the arguments that hold an id, and the calls with these arguments."""


def only(own: int) -> Mapping[str, Rule]:
    """Return the rules that allow no id but ``own``, by call."""
    return {name: _rule(own, places) for places, names in _NAMING.items() for name in names.split()}


def _rule(own: int, places: tuple[int, ...]) -> Rule:
    choices = itertools.product((own, _UNCHANGED), repeat=len(places))
    return allow_if(*(tuple(map(low, places, choice)) for choice in choices))
