"""The oci backend: a container made by an OCI runtime, without a daemon."""
