"""Every setting of the server, its default, what it means and what is allowed.

One TOML file. `load` reads it and `render` writes it back with its documentation, so that
`python -m server --print-config > server.toml` gives a file that loads to the same values. Absent
(None) has no TOML form; such a setting is written as a comment.
"""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomllib

from robot_sdk.errors import nearest
from server.sections.admission import AdmissionSection
from server.sections.brain import BrainSection
from server.sections.openai import OpenAiSection
from server.sections.policy import PolicySection
from server.sections.vllm import VllmSection
from server.setting import setting


class ConfigError(ValueError):
    """A setting is unknown or wrong. The message names key, value and what is allowed."""


@dataclass(frozen=True)
class ServerSection:
    """Where the server listens and how it behaves as a process."""

    host: str = setting("127.0.0.1", "Address to listen on. 0.0.0.0 is every IPv4 interface.")
    port: int = setting(50051, "TCP port; 0 lets the system choose.", minimum=0, maximum=65535)
    roles: list[str] = setting(
        ["brain", "policy"], "What this process serves.", choices=("brain", "policy")
    )
    max_message_bytes: int = setting(
        64 * 1024 * 1024,
        "Largest message in either direction, bytes. Clients learn it from Handshake.",
        minimum=1024,
        maximum=1024**3,
    )
    min_keepalive_interval_s: float = setting(
        5.0,
        "Shortest interval of client keepalive pings that is tolerated, also on quiet calls.",
        minimum=0.1,
        maximum=300.0,
    )
    max_concurrent_streams: int = setting(
        1024, "Calls that one connection may have open at once.", minimum=1, maximum=1_000_000
    )
    load_timeout_s: float = setting(
        300.0, "Time that model workers have for loading at start.", minimum=1.0
    )
    drain_deadline_s: float = setting(
        30.0, "After SIGTERM, time that running episodes have to end by themselves.", minimum=0.0
    )
    log_level: str = setting(
        "info", "Least severe message to log.", choices=("debug", "info", "warning", "error")
    )


@dataclass(frozen=True)
class AuthSection:
    """Who may call. Without tokens only loopback addresses are served."""

    tokens_file: str = setting(
        "",
        "File with one `TOKEN TENANT ROLE` per line; ROLE is robot or admin. # starts a comment.",
    )
    tokens_env: str = setting(
        "", "Name of an environment variable with the same lines, separated by newlines or `;`."
    )
    allow_anonymous: bool = setting(
        False, "Serve callers without a token on addresses that others can reach."
    )


@dataclass(frozen=True)
class TlsSection:
    """Encryption. Both files empty: plain text."""

    certificate_file: str = setting("", "PEM certificate chain of this server.")
    key_file: str = setting("", "PEM private key of this server.")
    client_ca_file: str = setting(
        "", "PEM bundle; if set, clients must present a certificate signed by one of it."
    )


@dataclass(frozen=True)
class EpisodesSection:
    """Leases and bounds of episodes."""

    lease_ttl_s: float = setting(
        10.0, "An episode without a heartbeat for this long is ended.", minimum=0.1, maximum=3600.0
    )
    heartbeat_interval_s: float = setting(
        2.0, "How often robots are told to send heartbeats.", minimum=0.02, maximum=600.0
    )
    max_waiting: int = setting(
        1000, "Longest queue at the door; beyond it robots are refused.", minimum=0
    )
    max_turns: int | None = setting(None, "Most brain turns of one episode.", minimum=1)
    max_duration_s: float | None = setting(None, "Longest time of one episode inside.", minimum=0.1)
    tick_s: float = setting(
        0.1, "How often leases and the queue are looked at.", minimum=0.01, maximum=1.0
    )


@dataclass(frozen=True)
class TelemetrySection:
    """Spans and metrics."""

    run_folder: str = setting("", "Folder for SERVICE.trace.jsonl. Empty: no file.")
    service: str = setting("server", "Name of this process in traces.")
    otlp_endpoint: str = setting("", "OTLP collector, host:port. Empty: none.")
    prometheus_host: str = setting("127.0.0.1", "Address of the metrics page.")
    prometheus_port: int | None = setting(
        None, "TCP port of the Prometheus metrics page. Absent: none.", minimum=0, maximum=65535
    )


@dataclass(frozen=True)
class Config:
    """All sections."""

    server: ServerSection = field(default_factory=ServerSection)
    auth: AuthSection = field(default_factory=AuthSection)
    tls: TlsSection = field(default_factory=TlsSection)
    episodes: EpisodesSection = field(default_factory=EpisodesSection)
    admission: AdmissionSection = field(default_factory=AdmissionSection)
    brain: BrainSection = field(default_factory=BrainSection)
    vllm: VllmSection = field(default_factory=VllmSection)
    openai: OpenAiSection = field(default_factory=OpenAiSection)
    policies: dict[str, PolicySection] = field(
        default_factory=lambda: {"flow-libero": PolicySection()}
    )
    telemetry: TelemetrySection = field(default_factory=TelemetrySection)


def load(path: Path | None = None, overrides: Sequence[str] = ()) -> Config:
    """Read a configuration.

    Args:
        path: TOML file; None uses the defaults.
        overrides: `section.key=value` as from `--set`; the value is TOML, or else plain text.

    Raises:
        ConfigError: The file cannot be read, or a setting is unknown or wrong.
    """
    tree: dict[str, Any] = {}
    if path is not None:
        try:
            tree = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise ConfigError(f"cannot read {path}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise ConfigError(f"{path} is not UTF-8 text: {error}") from error
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"{path} is not valid TOML: {error}") from error
    for override in overrides:
        _override(tree, override)
    return from_tree(tree)


def from_tree(tree: Mapping[str, Any]) -> Config:
    """Build and check a configuration from nested tables."""
    known = {f.name for f in dataclasses.fields(Config)}
    sections: dict[str, Any] = {}
    for name, table in tree.items():
        if name not in known:
            raise _unknown(name, known)
        if not isinstance(table, Mapping):
            raise ConfigError(f"{name} is a section, not a value; write [{name}]")
        if name == "policies":
            sections[name] = {
                policy: _section(PolicySection, f"policies.{policy}", values)
                for policy, values in table.items()
            }
        else:
            section_type = typing.get_type_hints(Config)[name]
            sections[name] = _section(section_type, name, table)
    config = Config(**sections)
    _check_together(config)
    return config


def render(config: Config) -> str:
    """The configuration as documented TOML that loads back equal."""
    blocks: list[str] = []
    for f in dataclasses.fields(Config):
        value = getattr(config, f.name)
        if f.name == "policies":
            blocks.extend(_render_section(f"policies.{_key(n)}", s) for n, s in value.items())
            if not value:
                blocks.append("[policies]\n")
        else:
            blocks.append(_render_section(f.name, value))
    return "\n".join(blocks)


def _override(tree: dict[str, Any], text: str) -> None:
    path, equals, raw = text.partition("=")
    keys = [key.strip() for key in path.split(".")]
    if not equals or len(keys) < 2 or not all(keys):
        raise ConfigError(f"--set {text!r}: write section.key=value")
    try:
        value = tomllib.loads(f"value = {raw}")["value"]
    except tomllib.TOMLDecodeError:
        value = raw
    if keys[0] == "policies" and "policies" not in tree:
        # The file has no policies section, so the default one is what is being changed.
        tree["policies"] = {name: {} for name in Config().policies}
    table = tree
    for key in keys[:-1]:
        table = table.setdefault(key, {})
        if not isinstance(table, dict):
            raise ConfigError(f"--set {text!r}: {key} is a value, not a section")
    table[keys[-1]] = value


def _section(section_type: type[Any], name: str, table: Any) -> Any:
    if not isinstance(table, Mapping):
        raise ConfigError(f"{name} is a section, not a value; write [{name}]")
    fields = {f.name: f for f in dataclasses.fields(section_type)}
    hints = typing.get_type_hints(section_type)
    values = {}
    for key, value in table.items():
        if key not in fields:
            raise _unknown(f"{name}.{key}", [f"{name}.{known}" for known in fields])
        values[key] = _checked(f"{name}.{key}", value, hints[key], fields[key].metadata)
    return section_type(**values)


def _checked(key: str, value: Any, hint: Any, metadata: Mapping[str, Any]) -> Any:
    if isinstance(hint, types.UnionType):
        hint = next(t for t in typing.get_args(hint) if t is not type(None))
    choices = metadata["choices"]
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if typing.get_origin(hint) is list:
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise _wrong(key, value, "a list of texts")
        for item in value:
            if choices and item not in choices:
                raise _wrong(key, item, ", ".join(choices))
        return value
    if typing.get_origin(hint) is dict:
        if not isinstance(value, dict):
            raise _wrong(key, value, "a table")
        return value
    if type(value) is not hint:
        names = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
        raise _wrong(key, value, names[hint])
    if choices and value not in choices:
        raise _wrong(key, value, ", ".join(choices))
    low, high = metadata["minimum"], metadata["maximum"]
    if hint in (int, float) and not (
        (low is None or value >= low) and (high is None or value <= high)
    ):
        bounds = [f">= {low}"] * (low is not None) + [f"<= {high}"] * (high is not None)
        raise _wrong(key, value, " and ".join(bounds) or "a finite number")
    return value


def _check_together(config: Config) -> None:
    if not config.server.roles:
        raise _wrong("server.roles", config.server.roles, "at least one of brain, policy")
    if config.episodes.heartbeat_interval_s * 2 > config.episodes.lease_ttl_s:
        raise _wrong(
            "episodes.heartbeat_interval_s",
            config.episodes.heartbeat_interval_s,
            f"at most half of episodes.lease_ttl_s ({config.episodes.lease_ttl_s})",
        )
    if config.brain.engine == "factory":
        _check_factory("brain.factory", config.brain.factory)
    for name, policy in config.policies.items():
        if policy.kind == "factory":
            _check_factory(f"policies.{name}.factory", policy.factory)
        if policy.infer_timeout_s <= policy.added_latency_s:
            raise _wrong(
                f"policies.{name}.infer_timeout_s",
                policy.infer_timeout_s,
                f"more than policies.{name}.added_latency_s ({policy.added_latency_s})",
            )
    if bool(config.tls.certificate_file) != bool(config.tls.key_file):
        raise ConfigError("tls.certificate_file and tls.key_file must be given together")


def _check_factory(key: str, value: str) -> None:
    module, colon, name = value.partition(":")
    if not (module and colon and name):
        raise _wrong(key, value, '"module:callable"')


def _unknown(key: str, known: Sequence[str] | set[str]) -> ConfigError:
    near = nearest(key, known) or sorted(known)
    return ConfigError(f"unknown setting {key}; did you mean {', '.join(near)}?")


def _wrong(key: str, value: Any, allowed: str) -> ConfigError:
    return ConfigError(f"{key} is {value!r}; allowed: {allowed}")


def _render_section(name: str, section: Any) -> str:
    lines = [f"# {(type(section).__doc__ or '').strip()}", f"[{name}]"]
    for f in dataclasses.fields(section):
        value = getattr(section, f.name)
        lines.append(f"# {f.metadata['doc']}{_allowed_text(value, f.metadata)}")
        lines.append(f"# {f.name} =" if value is None else f"{f.name} = {_toml(value)}")
    return "\n".join(lines) + "\n"


def _allowed_text(value: Any, metadata: Mapping[str, Any]) -> str:
    parts = []
    if metadata["choices"]:
        some = "any of " if isinstance(value, list) else "one of "
        parts.append(some + ", ".join(metadata["choices"]))
    if metadata["minimum"] is not None:
        parts.append(f">= {metadata['minimum']}")
    if metadata["maximum"] is not None:
        parts.append(f"<= {metadata['maximum']}")
    return f" Allowed: {'; '.join(parts)}." if parts else ""


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _toml_text(value)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(k)} = {_toml(v)}" for k, v in value.items()) + "}"
    return repr(value)


def _toml_text(text: str) -> str:
    # A TOML basic string is a JSON string except for DEL, which TOML wants escaped.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(name: str) -> str:
    bare = name and all(c.isascii() and (c.isalnum() or c in "-_") for c in name)
    return name if bare else _toml_text(name)
