"""The secrets of one run: sets a value in the place of its placeholder, in a header field for the secret's own hosts.

The value leaves over TLS to a server whose certificate proves its name. A server that repeats a header reveals it.
"""

from __future__ import annotations

import os
import ssl

from stockade.warden.proxy.account import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket as socket
    from collections.abc import Iterable

    from stockade.core.targets import Target
    from stockade.warden.proxy.broker import Entry

_FIELDS = frozenset((
    b"authorization", b"api-key", b"apikey", b"x-api-key", b"x-api-token", b"x-auth-token", b"x-access-token",
    b"x-goog-api-key", b"private-token", b"ocp-apim-subscription-key", b"x-subscription-token",
))  # fmt: skip
"""The header fields for a secret. Servers repeat others, such as X-Request-Id, and the guest could choose one."""
_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")


def authorities() -> tuple[ssl.SSLContext, str]:
    """Return a context that trusts the authorities of this host, and their place, which is empty without any.

    Raises ``OSError`` if the file of SSL_CERT_FILE cannot be used: it replaces all others.
    """
    own = os.environ.get("SSL_CERT_FILE")
    context = ssl.create_default_context(cafile=own or None)
    if own:
        return context, own
    known = ssl.get_default_verify_paths()
    if context.cert_store_stats()["x509_ca"]:
        return context, known.cafile or known.openssl_cafile
    for path in filter(os.path.exists, _BUNDLES):
        context.load_verify_locations(path)
        return context, path
    folder = known.capath  # OpenSSL reads it when a certificate needs it
    return context, folder if folder and os.listdir(folder) else ""


class _Kept:
    """A secret. No method writes its value, as a record's ``repr`` would."""

    def __init__(self, name: str, placeholder: str, value: str, hosts: Iterable[str]) -> None:
        self.name, self.hosts = name, tuple(hosts)
        self.placeholder, self.value = placeholder.encode(), value.encode()


class Vault:
    """Holds the values, in the proxy's memory alone."""

    readable = ("/etc/ssl", "/etc/pki", "/etc/ca-certificates")
    """Where certificates of authorities are, which TLS may read late."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        """Load the authorities. The proxy cannot read most files later."""
        self._kept = [_Kept(*entry) for entry in entries]
        "a".encode("idna")  # ssl encodes names so, and the codec's modules cannot be read later
        self._context, _ = authorities()

    def check(self, target: Target) -> None:
        """Raise ``Refused`` unless some secret is for ``target``."""
        if not any(str(target) in each.hosts for each in self._kept):
            reason = f"{target} is not a host of a secret; reach it through the proxy, by its own URL"
            raise Refused(403, reason, str(target))

    def filled(self, name: bytes, field: bytes, target: Target, *, by_gateway: bool) -> bytes:
        """Return the value of the header field ``name`` with the secret that it asks for.

        A placeholder stands alone or behind a scheme (``Bearer``). Raises ``Refused`` if it stands for a secret of
        other hosts, in a field that servers are known to repeat, or anywhere else.
        """
        for each in self._kept:
            if each.placeholder not in field:
                continue
            if not by_gateway or str(target) not in each.hosts:
                reason = f"the secret {each.name} goes only to {', '.join(each.hosts)}, and only by the gateway"
                raise Refused(403, reason, str(target))
            if name not in _FIELDS:
                known = b", ".join(sorted(_FIELDS)).decode()
                reason = f"the secret {each.name} goes into one of these header fields: {known}"
                raise Refused(400, reason, str(target))
            scheme, space, last = field.rpartition(b" ")
            if last == each.placeholder and (not space or scheme.isalpha()):
                return scheme + space + each.value
            reason = f"the placeholder of the secret {each.name} must be a header's whole value, or follow a scheme"
            raise Refused(400, reason, str(target))
        return field

    def secured(self, server: socket.socket, target: Target) -> ssl.SSLSocket:
        """Return a TLS connection over ``server``, whose certificate proves the name of ``target``."""
        try:
            return self._context.wrap_socket(server, server_hostname=target.host)  # type: ignore[arg-type]
        except OSError as error:
            server.close()
            reason = getattr(error, "verify_message", "") or type(error).__name__
            raise Refused(502, f"{target} has no TLS that proves its name: {reason}", str(target)) from None
