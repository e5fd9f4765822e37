"""The parts of a policy, from limits to languages. Each rejects invalid values of its fields."""

from stockade.policy.parts.base import Part, frozen
from stockade.policy.parts.filesystem import Filesystem
from stockade.policy.parts.guest import Commands, Environment, Security
from stockade.policy.parts.limits import Languages, Limits
from stockade.policy.parts.network import Network

__all__ = ["Commands", "Environment", "Filesystem", "Languages", "Limits", "Network", "Part", "Security", "frozen"]
