"""The parts of a policy, from limits to languages. Each refuses what makes no sense in it."""

from stockade._policy_parts.base import Part, frozen
from stockade._policy_parts.filesystem import Filesystem
from stockade._policy_parts.guest import Commands, Environment, Security
from stockade._policy_parts.limits import Languages, Limits

__all__ = ["Commands", "Environment", "Filesystem", "Languages", "Limits", "Part", "Security", "frozen"]
