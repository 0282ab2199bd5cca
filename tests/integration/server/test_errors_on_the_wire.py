"""What a client sees of errors and cancellations inside a handler."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import pytest

from robot_sdk.api.v1 import common_pb2, control_pb2, control_pb2_grpc
from robot_sdk.errors import (
    CancelledByServerError,
    InternalServerError,
    OverloadedError,
    RobotSdkError,
    from_rpc_error,
)
from server.rpc.calls import ActiveCall
from server.rpc.errors import translated


class Servicer(control_pb2_grpc.ControlServiceServicer):
    """Runs what the test wants in place of an answer."""

    def __init__(self, body: Callable[[], Awaitable[None]]) -> None:
        self._body = body
        self.was_cancelled = False

    @translated
    async def Exchange(self, request: Any, context: Any) -> control_pb2.ExchangeResponse:
        try:
            await self._body()
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise
        return control_pb2.ExchangeResponse()


async def call(servicer: Servicer, timeout_s: float = 20.0) -> grpc.aio.AioRpcError:
    """The error that a client gets."""
    server = grpc.aio.server()
    control_pb2_grpc.add_ControlServiceServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = control_pb2_grpc.ControlServiceStub(channel)
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await stub.Exchange(control_pb2.ExchangeRequest(), timeout=timeout_s)
            return caught.value
    finally:
        await server.stop(0)


def sdk_error(body: Callable[[], Awaitable[None]]) -> RobotSdkError:
    return from_rpc_error(asyncio.run(call(Servicer(body))))


def test_a8_a_cancellation_inside_a_handler_reaches_the_client() -> None:
    async def cancelled() -> None:
        raise asyncio.CancelledError

    assert isinstance(sdk_error(cancelled), CancelledByServerError)


def test_a8_cancelling_the_handlers_task_reaches_the_client() -> None:
    async def cancelled() -> None:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().call_soon(task.cancel)
        await asyncio.Event().wait()

    assert isinstance(sdk_error(cancelled), CancelledByServerError)


def test_a_stopped_call_fails_with_the_error_it_was_stopped_with() -> None:
    async def stopped() -> None:
        active = ActiveCall()
        asyncio.get_running_loop().call_soon(
            active.stop, OverloadedError("make room", retry_after_s=1.5)
        )
        with active.running():
            await asyncio.Event().wait()

    error = sdk_error(stopped)

    assert isinstance(error, OverloadedError)
    assert (error.message, error.retry_after_s) == ("make room", 1.5)


def test_a_client_that_cancels_cancels_the_handler() -> None:
    async def waits() -> None:
        await asyncio.Event().wait()

    servicer = Servicer(waits)
    error = asyncio.run(call(servicer, timeout_s=0.3))

    assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert servicer.was_cancelled


def test_a_fault_tells_an_id_for_the_log_and_nothing_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def broken() -> None:
        raise ValueError("internal detail")

    error = sdk_error(broken)

    assert isinstance(error, InternalServerError)
    assert "internal detail" not in str(error)
    fault = error.message.rsplit(" ", 1)[-1]
    assert fault in caplog.text
    assert "internal detail" in caplog.text


def test_an_errors_details_survive_the_wire() -> None:
    async def refused() -> None:
        raise OverloadedError(
            "满了 🤖", field="f", value="v", allowed=("a", "b"), hint="wait", retry_after_s=2.0
        )

    error = sdk_error(refused)

    assert error.reason == common_pb2.ERROR_REASON_OVERLOADED
    assert error.message == "满了 🤖; wait"
    assert (error.field, error.value, error.allowed) == ("f", "v", ("a", "b"))
    assert error.retry_after_s == 2.0
