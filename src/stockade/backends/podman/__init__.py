"""The podman backend: a container of podman's own service, asked over its socket."""
