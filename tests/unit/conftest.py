"""Load the profile of the property tests."""

from tests.support import examples

examples.load()
