"""The native backend: namespaces, control groups and filters, straight from the kernel."""
