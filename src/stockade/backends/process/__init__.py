"""The process and landlock backends: no namespaces."""
