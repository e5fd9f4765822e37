"""The docker backend: a container of a docker daemon, over the daemon's own socket."""
