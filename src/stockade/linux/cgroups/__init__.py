"""Control groups, v1 and v2, only below the caller's own group.

Sources: Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/{memory,pids}.rst of the kernel. Each tree of groups
belongs to one warden, which holds a lock on the folder. The lock distinguishes a living tree from an abandoned one,
whatever PID namespaces the wardens run in.
"""

from stockade.linux.cgroups.counters import Counters
from stockade.linux.cgroups.freezer import Freezer
from stockade.linux.cgroups.group import RENEWABLE, Group, GroupBelow
from stockade.linux.cgroups.places import PREFIX, Hierarchy, find, try_controllers
from stockade.linux.cgroups.trees import EXEC, Tree, reclaim

__all__ = [
    "EXEC",
    "PREFIX",
    "RENEWABLE",
    "Counters",
    "Freezer",
    "Group",
    "GroupBelow",
    "Hierarchy",
    "Tree",
    "find",
    "reclaim",
    "try_controllers",
]
