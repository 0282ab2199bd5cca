"""Requests that are no message: the caller's mistake, answered like any other of its mistakes.

gRPC by itself answers them as a fault of the server, with a traceback in the log for each.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from robot_sdk.errors import InvalidArgumentError

_OWN_METHODS = "/robot_sdk.api.v1."


@dataclass(frozen=True)
class Malformed:
    """Stands for a request that could not be decoded."""

    num_bytes: int


def well_formed(request: Any) -> Any:
    """The request itself.

    Raises:
        InvalidArgumentError: It is a Malformed.
    """
    if isinstance(request, Malformed):
        raise InvalidArgumentError(
            "the bytes are no message of this method",
            field="message",
            value=f"{request.num_bytes} bytes",
        )
    return request


class MalformedInterceptor(grpc.aio.ServerInterceptor):
    """Gives handlers a Malformed instead of failing before they are reached."""

    async def intercept_service(
        self,
        continuation: Callable[
            [grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]
        ],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        handler = await continuation(handler_call_details)
        if (
            handler is None
            or handler.request_deserializer is None
            or not handler_call_details.method.startswith(_OWN_METHODS)
        ):
            return handler
        deserialize = handler.request_deserializer

        def forgiving(raw: bytes) -> Any:
            try:
                return deserialize(raw)
            except DecodeError:
                return Malformed(len(raw))

        # A handler is a named tuple, which the stubs do not say.
        return handler._replace(  # type: ignore[attr-defined,no-any-return]
            request_deserializer=forgiving
        )
