"""A `FakeServer` behind real gRPC on the loopback, threaded."""

from __future__ import annotations

import threading
from concurrent import futures

import grpc

from robot_sdk.api.v1 import (
    brain_pb2_grpc,
    control_pb2_grpc,
    episode_pb2_grpc,
    policy_pb2_grpc,
)
from robot_sdk.errors import ERROR_DETAIL_METADATA_KEY, RobotSdkError, to_detail
from robot_sdk.testing import FakeServer

_MAX_BYTES = 64 * 1024 * 1024


class GrpcFakeServer:
    """Serves a FakeServer until `stop`."""

    def __init__(
        self,
        fake: FakeServer,
        *,
        port: int = 0,
        token: str | None = None,
        credentials: grpc.ServerCredentials | None = None,
        num_threads: int = 64,
    ) -> None:
        self.fake = fake
        self._server = grpc.server(
            futures.ThreadPoolExecutor(num_threads),
            options=[
                ("grpc.max_send_message_length", _MAX_BYTES),
                ("grpc.max_receive_message_length", _MAX_BYTES),
                ("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000),
                ("grpc.keepalive_permit_without_calls", 1),
                ("grpc.so_reuseport", 0),
            ],
        )
        servicer = _Servicer(fake, token)
        control_pb2_grpc.add_ControlServiceServicer_to_server(servicer, self._server)
        episode_pb2_grpc.add_EpisodeServiceServicer_to_server(servicer, self._server)
        brain_pb2_grpc.add_BrainServiceServicer_to_server(servicer, self._server)
        policy_pb2_grpc.add_PolicyServiceServicer_to_server(servicer, self._server)
        address = f"127.0.0.1:{port}"
        if credentials is None:
            self.port = self._server.add_insecure_port(address)
        else:
            self.port = self._server.add_secure_port(address, credentials)
        self._server.start()

    @property
    def target(self) -> str:
        return f"127.0.0.1:{self.port}"

    def stop(self) -> None:
        self._server.stop(grace=None).wait(5.0)


class _Servicer:
    def __init__(self, fake: FakeServer, token: str | None) -> None:
        self._fake = fake
        self._token = token

    def Handshake(self, request, context):
        self._authenticate(context)
        return self._unary(self._fake.handshake, request, context)

    def Exchange(self, request, context):
        self._authenticate(context)
        return self._unary(self._fake.exchange, request, context)

    def Run(self, requests, context):
        self._authenticate(context)
        session = self._fake.open_run()

        def on_request(request):
            self._fake.run_requests.append(request)
            session.handle(request)

        _at_end(context, session.break_off)
        _feed(requests, on_request, lambda: None)
        yield from self._relay(session.responses, context)

    def Decide(self, request, context):
        self._authenticate(context)
        session = self._fake.decide(request)
        _at_end(context, session.cancel)
        yield from self._relay(session.responses, context)

    def Chunks(self, requests, context):
        self._authenticate(context)
        session = self._fake.open_chunks()
        _at_end(context, session.cancel)
        _feed(requests, session.handle, session.half_close)
        yield from self._relay(session.responses, context)

    def _authenticate(self, context) -> None:
        if self._token is None:
            return
        metadata = dict(context.invocation_metadata())
        if metadata.get("authorization") != f"Bearer {self._token}":
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "missing or wrong token")

    def _unary(self, call, request, context):
        try:
            return call(request)
        except RobotSdkError as error:
            _abort(context, error)

    def _relay(self, responses, context):
        try:
            yield from responses
        except RobotSdkError as error:
            _abort(context, error)


def _at_end(context, callback) -> None:
    if not context.add_callback(callback):  # it has ended already
        callback()


def _feed(requests, on_request, on_end) -> None:
    def run():
        try:
            for request in requests:
                on_request(request)
            on_end()
        except Exception:
            pass  # the call is over

    threading.Thread(target=run, daemon=True).start()


def _abort(context, error: RobotSdkError) -> None:
    context.set_trailing_metadata(
        ((ERROR_DETAIL_METADATA_KEY, to_detail(error).SerializeToString()),)
    )
    context.abort(error.status, error.message)
