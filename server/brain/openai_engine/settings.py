"""What the configuration of the endpoint must be like, checked before anything is started."""

from __future__ import annotations

import logging
import os
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from server.config import ConfigError
from server.sections.openai import OpenAiSection

_log = logging.getLogger(__name__)

#: Fields of a request that are this engine's to fill.
_OWN_FIELDS = ("model", "messages", "tools", "stream", "stream_options")
#: Headers that carry keys. `--print-config` shows extra_headers.
_KEY_HEADERS = ("authorization", "proxy-authorization", "cookie", "api-key", "x-api-key")
_HEADER_NAME = re.compile(r"[A-Za-z0-9-]+")
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True, repr=False)
class ApiKey:
    """A secret. It has no readable form but `reveal`.

    Attributes:
        header: Header that carries it.
    """

    _key: str
    header: str

    def __repr__(self) -> str:
        return "ApiKey(...)"

    def reveal(self) -> str:
        """The value of the header."""
        return f"Bearer {self._key}" if self.header.lower() == "authorization" else self._key

    def redact(self, text: str) -> str:
        """`text` without the key: endpoints like to repeat a key that they refuse."""
        return text.replace(self._key, "[key]")

    def redact_bytes(self, data: bytes) -> bytes:
        """The same for bytes."""
        return data.replace(self._key.encode(), b"[key]")


def check_section(section: OpenAiSection) -> None:
    """Pass a section that can be used.

    Raises:
        ConfigError: Names the setting.
    """
    url = urlsplit(section.base_url)
    if url.scheme not in ("http", "https") or not url.hostname:
        raise ConfigError(
            f'openai.base_url is {section.base_url!r}; brain.engine = "openai" needs an address '
            "like https://HOST/v1"
        )
    if url.username or url.password or url.query or url.fragment:
        raise ConfigError(
            "openai.base_url may hold no user, password, query or fragment; a key goes into "
            "openai.api_key_env or openai.api_key_file"
        )
    if not section.model:
        raise ConfigError('openai.model is empty; brain.engine = "openai" needs the model\'s name')
    for name in section.extra_body:
        if name in _OWN_FIELDS:
            raise ConfigError(f"openai.extra_body.{name} is set by the server; leave it out")
    for name, value in section.extra_headers.items():
        if name.lower() in _KEY_HEADERS:
            raise ConfigError(
                f"openai.extra_headers.{name} carries a key; use openai.api_key_env or "
                "openai.api_key_file with openai.api_key_header"
            )
        if not isinstance(value, str) or not value.isprintable():
            raise ConfigError(f"openai.extra_headers.{name} is no text of one line")
    for name in (section.api_key_header, *section.extra_headers):
        if not _HEADER_NAME.fullmatch(name):
            raise ConfigError(f"{name!r} is no name of a header (openai)")
    if section.ca_file and not Path(section.ca_file).is_file():
        raise ConfigError(f"openai.ca_file is {section.ca_file!r}, which is no file")


def read_api_key(section: OpenAiSection) -> ApiKey | None:
    """The key, from where the section says; None if it names no place.

    Raises:
        ConfigError: Two places, an empty place, or a key that no header can carry.
    """
    if section.api_key_env and section.api_key_file:
        raise ConfigError("openai.api_key_env and openai.api_key_file: give one of them")
    if section.api_key_env:
        where, key = "openai.api_key_env", os.environ.get(section.api_key_env, "").strip()
        if not key:
            raise ConfigError(
                f"{where}: the environment variable {section.api_key_env} is not set, or empty"
            )
    elif section.api_key_file:
        where = "openai.api_key_file"
        try:
            key = Path(section.api_key_file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{where}: cannot read {section.api_key_file}: {error}") from error
        if not key:
            raise ConfigError(f"{where}: {section.api_key_file} is empty")
    else:
        return None
    if not (key.isascii() and key.isprintable()):
        raise ConfigError(f"{where}: the key must be one line of printable ASCII")
    url = urlsplit(section.base_url)
    if url.scheme == "http" and url.hostname not in _LOOPBACK:
        _log.warning("the key of the model endpoint travels in plain text: openai.base_url is http")
    return ApiKey(key, section.api_key_header)
