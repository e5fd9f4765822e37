"""Control groups, v1 and v2, below the caller's own group and nowhere else.

Sources: Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/{memory,pids}.rst of the kernel.
A tree of groups belongs to one warden: it holds a lock on the folder, so that whoever comes later can tell an
abandoned tree from a living one, in whatever PID namespace either of them runs.
"""

from stockade.linux.cgroups.counters import Counters
from stockade.linux.cgroups.freezer import Freezer
from stockade.linux.cgroups.group import RENEWABLE, Group
from stockade.linux.cgroups.places import PREFIX, Hierarchy, find, try_controllers
from stockade.linux.cgroups.trees import Tree, reclaim

__all__ = [
    "PREFIX",
    "RENEWABLE",
    "Counters",
    "Freezer",
    "Group",
    "Hierarchy",
    "Tree",
    "find",
    "reclaim",
    "try_controllers",
]
