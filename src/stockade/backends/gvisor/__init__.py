"""The gvisor backend: a container whose system calls a kernel in user space answers."""
