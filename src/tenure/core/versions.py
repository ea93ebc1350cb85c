"""`VersionedArguments`: reads payloads of earlier versions of a task, upcast to the present one version by version.

A payload of version 2 or later says so in a member `v`, which Tenure writes first:

    {"v": 2, "args": ["c1", "9.50", "EUR"]}

A payload without `v` has version 1, so the payloads of a task without versions are what they always were. An upcaster takes
the arguments of one version and returns those of the next by name. It is called when an older payload is read; the stored
bytes never change.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from tenure.core.codec import ArgsKwargs, Arguments, JsonArguments, Payload, digest, reason
from tenure.errors import InvalidOption, NewerPayload, PayloadError, PayloadTooLarge

__all__ = ["AnyVersion", "Upcaster", "VersionedArguments", "version_of"]

_payload = msgspec.json.Decoder(Payload).decode
_encode = msgspec.json.Encoder().encode


class _Version(msgspec.Struct):
    v: int = 1


_version = msgspec.json.Decoder(_Version).decode


def version_of(payload: bytes) -> int:
    """The version of a JSON payload; 1 if it says none, or is no payload."""
    try:
        return _version(payload).v
    except Exception:  # noqa: BLE001 - decoding the arguments says what is wrong with it
        return 1


def stamped(payload: bytes, version: int) -> bytes:
    """A payload of version 1, with another version."""
    if version == 1:
        return payload
    head = b'{"v":%d' % version
    return head + (b"}" if payload == b"{}" else b"," + payload[1:])


def parse(payload: bytes) -> tuple[int, bytes]:
    """The version of a payload, and the payload without it. `PayloadError` if it is no payload."""
    try:
        call = _payload(payload)
    except Exception as error:
        raise PayloadError(f"the payload is not a call of a task: {reason(error)}") from error
    return max(call.v, 1), _encode(Payload(call.args, call.kwargs))


class Upcaster:
    """A function that takes the arguments of one version of a task and returns those of the next, by name."""

    def __init__(
        self,
        version: int,
        function: Callable[..., Any],
        signature: inspect.Signature,
        hints: Mapping[str, Any],
        limit: int,
    ) -> None:
        self.version = version
        self.signature = signature
        self.hints = hints
        self.arguments = JsonArguments(signature, hints, limit)
        """Reads payloads of `version`, by the signature of the function."""

        self._function = function

    def lift(self, payload: bytes, target: Arguments, by_position: tuple[str, ...]) -> bytes:
        """Turn a payload of this version into one of the next, which `target` checks. `PayloadError` if that fails.

        `by_position`: parameters of the next version that take no argument by name.
        """
        args, kwargs = self.arguments.decode(payload)
        what = f"the upcaster from version {self.version}"
        try:
            given = self._function(*args, **kwargs)
        except Exception as error:
            raise PayloadError(f"{what} raised {type(error).__name__}: {error!s:.500}") from error
        if not isinstance(given, Mapping):
            raise PayloadError(
                f"{what} returned a value of type {type(given).__name__}: return a mapping of arguments by name"
            )
        named = {name: value for name, value in given.items() if name not in by_position}
        try:
            return target.encode(tuple(given[name] for name in by_position if name in given), named)
        except (TypeError, PayloadError) as error:
            raise PayloadError(f"{what} returned no call of version {self.version + 1}: {error}") from error


class VersionedArguments:
    """The arguments of a task with `version=`. Payloads of earlier versions are upcast when they are read."""

    def __init__(self, current: Arguments, version: int, limit: int, plain: JsonArguments) -> None:
        """`plain` reads calls that have all arguments; `current` also those that the worker completes."""
        self.version = version
        self._current = current
        self._limit = limit
        self._by_position = plain.by_position
        self._plain = plain.plain_decoder(version)
        self.upcasters: dict[int, Upcaster] = {}
        """Upcasters by the version that they read."""

        self._head = b'{"v":%d,' % version
        self._start = len(self._head)

    def add(self, upcaster: Upcaster) -> None:
        """Add an upcaster. `InvalidOption` if there is one from that version, or the version is not an earlier one."""
        if not isinstance(upcaster.version, int) or not 1 <= upcaster.version < self.version:
            raise InvalidOption(
                f"upcast({upcaster.version!r:.40}) is not from an earlier version: the task has version={self.version}"
            )
        if upcaster.version in self.upcasters:
            raise InvalidOption(f"there is an upcaster from version {upcaster.version} already")
        self.upcasters[upcaster.version] = upcaster

    def check(self) -> None:
        """Raise `InvalidOption` unless the upcasters lead from the oldest version that has one to the present version.

        Upcasters of the oldest versions may be missing, because no such job may be left; that from the version before may not.
        """
        for version in range(min(self.upcasters, default=self.version - 1), self.version):
            if version not in self.upcasters:
                raise InvalidOption(
                    f"it has version={self.version}, and nothing reads the jobs of version {version}: add @….upcast({version})"
                )

    def encode(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bytes:
        payload = stamped(self._current.encode(args, kwargs), self.version)
        if len(payload) > self._limit:
            raise PayloadTooLarge(len(payload), self._limit)
        return payload

    def decode(self, payload: bytes) -> ArgsKwargs:
        if self._plain is not None and payload.endswith(b"]}") and len(payload) <= self._limit:
            try:
                return self._plain(payload), {}
            except Exception:  # noqa: BLE001, S110 - another version, or wrong: the slow way says what is wrong
                pass
        return self._current.decode(self._lifted(payload))

    def key(self, payload: bytes) -> str:
        # With the version, because arguments that look the same may mean something else in another version.
        return digest(f"{self.version}:{self._current.key(self._lifted(payload))}".encode())

    def _lifted(self, payload: bytes) -> bytes:
        """The payload as one of the present version, without its `v`."""
        if payload.startswith(self._head):
            return b"{" + payload[self._start :]
        return self._lifted_slowly(payload)

    def _lifted_slowly(self, payload: bytes) -> bytes:
        if len(payload) > self._limit:
            raise PayloadTooLarge(len(payload), self._limit)
        version, payload = parse(payload)
        if version > self.version:
            raise NewerPayload(version, self.version)
        for earlier in range(version, self.version):
            if (upcaster := self.upcasters.get(earlier)) is None:
                raise PayloadError(
                    f"the payload has version {version}, and nothing leads from version {earlier} to {earlier + 1}: "
                    f"add @….upcast({earlier})"
                )
            following = self.upcasters.get(earlier + 1)
            if earlier + 1 == self.version or following is None:
                payload = upcaster.lift(payload, self._current, self._by_position)
            else:
                payload = upcaster.lift(payload, following.arguments, following.arguments.by_position)
        return payload


class AnyVersion:
    """The arguments of a task whose code is elsewhere: written with one version, read whatever their version is."""

    def __init__(self, arguments: JsonArguments, version: int = 1) -> None:
        self._arguments = arguments
        self._version = version

    def encode(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bytes:
        return stamped(self._arguments.encode(args, kwargs), self._version)

    def decode(self, payload: bytes) -> ArgsKwargs:
        return self._arguments.decode(self._plain(payload))

    def key(self, payload: bytes) -> str:
        return self._arguments.key(self._plain(payload))

    def _plain(self, payload: bytes) -> bytes:
        return parse(payload)[1] if payload.startswith(b'{"v"') else payload
