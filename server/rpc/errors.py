"""The one place where errors become gRPC statuses.

A RobotSdkError travels with its ErrorDetail in the trailing metadata. Anything else is a fault of
the server: the log gets the traceback, the client an id to look it up by. A cancellation that did
not come from the client must be told to it: grpc.aio by itself would leave it waiting.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import secrets
from collections.abc import Callable
from typing import Any, TypeVar

import grpc

from robot_sdk.errors import (
    ERROR_DETAIL_METADATA_KEY,
    CancelledByServerError,
    InternalServerError,
    InvalidArgumentError,
    RobotSdkError,
    to_detail,
)
from server.rpc.malformed import well_formed

_log = logging.getLogger(__name__)

_MAX_STATUS_CHARS = 200

HandlerT = TypeVar("HandlerT", bound=Callable[..., Any])


async def abort(context: grpc.aio.ServicerContext[Any, Any], error: RobotSdkError) -> None:
    """End the call with this error."""
    detail = to_detail(error)
    await context.abort(
        error.status,
        # Percent-encoded on the way, each byte may take three. The detail has all of it.
        detail.message[:_MAX_STATUS_CHARS],
        trailing_metadata=((ERROR_DETAIL_METADATA_KEY, detail.SerializeToString()),),
    )


def not_a_number(field: str) -> InvalidArgumentError:
    """For a time that is NaN: it is neither before nor after any other."""
    return InvalidArgumentError(
        "the time is not a number", field=field, value="nan", allowed=("seconds",)
    )


def translated(handler: HandlerT) -> HandlerT:
    """Wraps a servicer method (self, request or iterator, context)."""
    assert inspect.iscoroutinefunction(handler), handler

    @functools.wraps(handler)
    async def wrapper(self: Any, request: Any, context: Any) -> Any:
        try:
            return await handler(self, well_formed(request), context)
        except RobotSdkError as error:
            await abort(context, error)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if context.cancelled() or task is None:
                raise
            task.uncancel()
            await abort(context, CancelledByServerError("the server gave up this call"))
        except grpc.aio.AbortError:
            raise
        except Exception as error:
            if context.done() or context.cancelled():
                _log.debug("%s: the client has gone (%s)", handler.__qualname__, error)
                raise asyncio.CancelledError from None
            fault = secrets.token_hex(4)
            _log.exception("fault %s in %s", fault, handler.__qualname__)
            await abort(
                context, InternalServerError(f"internal error; the server's log has it as {fault}")
            )

    return wrapper  # type: ignore[return-value]
