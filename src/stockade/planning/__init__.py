"""From a policy and the facts of a host to a plan: pure decisions about mechanisms."""
