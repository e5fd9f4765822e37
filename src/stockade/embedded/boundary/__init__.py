"""The boundary: everything that a script can reach, and nothing else. Its modules are the ones to review for an escape.

The weave (``stockade.embedded.weave``) sends each operation that can be large, slow or revealing to a guard of this
package. All other operations run as CPython runs them. So the two rules of this package are: a guard prices an
operation before it performs it, and no object of the host is reachable from an object that is handed to a script.
"""
