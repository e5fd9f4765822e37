"""The policy: what a run may use and touch, and how several sources become one policy."""
