"""``base64`` and ``hashlib``."""

from __future__ import annotations

import base64 as real_base64
import binascii
import hashlib as real_hashlib
from typing import TYPE_CHECKING, Any

from stockade.embedded.boundary.facades import Fixed

if TYPE_CHECKING:
    from collections.abc import Callable

    from stockade.embedded.boundary.namespace import Namespace

_BASE64 = (
    "b64encode", "b64decode", "urlsafe_b64encode", "urlsafe_b64decode", "standard_b64encode", "standard_b64decode",
    "b32encode", "b32decode", "b16encode", "b16decode",
)  # fmt: skip
_DIGESTS = ("md5", "sha1", "sha224", "sha256", "sha384", "sha512", "sha3_256", "sha3_512", "blake2b", "blake2s")


def base64(space: Namespace) -> dict[str, Any]:
    """Return the members of ``base64``."""
    return {name: _coding(space, getattr(real_base64, name), is_slow="32" in name) for name in _BASE64}


def _coding(space: Namespace, perform: Callable[[Any], bytes], *, is_slow: bool) -> Callable[[Any], bytes]:
    """Return a guard. CPython's base 32 is Python code, and ``is_slow``."""

    def guard(data: Any) -> bytes:
        if type(data) not in (str, bytes):
            raise TypeError(f"a bytes-like object is required, not {type(data).__name__!r}")
        space.operators.sized(len(data) * 2, b"")
        if is_slow:
            space.meter.charge(len(data) // 32)
        try:
            return perform(data)
        except binascii.Error as error:
            raise ValueError(str(error)) from None

    return guard


def hashlib(space: Namespace) -> dict[str, Any]:
    """Return the members of ``hashlib``."""
    return {name: _hashing(space, getattr(real_hashlib, name)) for name in _DIGESTS} | {
        "new": lambda name, data=b"": _named(space, name, data),
    }


def _named(space: Namespace, name: Any, data: Any) -> Any:
    if type(name) is not str or name not in _DIGESTS:
        raise ValueError("unsupported hash type")
    return _hashing(space, getattr(real_hashlib, name))(data)


def _hashing(space: Namespace, make: Callable[..., Any]) -> Callable[..., Digest]:
    def pay(data: Any) -> bytes:
        if type(data) is not bytes:
            raise TypeError("object supporting the buffer API required")
        space.meter.charge(1 + len(data) // 128)
        return data

    return lambda data=b"": Digest(make(pay(data), usedforsecurity=False), pay)


class Digest(metaclass=Fixed):
    """A digest. The object of ``hashlib`` behind it has a name that a script cannot spell."""

    __slots__ = ("__digest__", "__pay__")

    def __init__(self, digest: Any, pay: Callable[[Any], bytes]) -> None:
        self.__digest__, self.__pay__ = digest, pay

    def update(self, data: Any) -> None:
        """Perform ``update``."""
        self.__digest__.update(self.__pay__(data))

    def digest(self) -> Any:
        """Perform ``digest``."""
        return self.__digest__.digest()

    def hexdigest(self) -> Any:
        """Perform ``hexdigest``."""
        return self.__digest__.hexdigest()

    @property
    def digest_size(self) -> Any:
        """Return the number of bytes."""
        return self.__digest__.digest_size
