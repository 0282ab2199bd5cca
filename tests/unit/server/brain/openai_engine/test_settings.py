from __future__ import annotations

import logging

import pytest

from server.brain.openai_engine.settings import check_section, read_api_key
from server.config import ConfigError
from server.sections.openai import OpenAiSection


def section(**fields):
    return OpenAiSection(**{"base_url": "https://host/v1", "model": "m", **fields})


@pytest.mark.parametrize(
    "fields",
    [
        {"base_url": ""},
        {"base_url": "host:8000/v1"},
        {"base_url": "ftp://host/v1"},
        {"base_url": "https://user:secret@host/v1"},
        {"base_url": "https://host/v1?key=secret"},
        {"model": ""},
        {"extra_body": {"messages": []}},
        {"extra_headers": {"Authorization": "Bearer secret"}},
        {"extra_headers": {"X-Fleet": "a\r\nX-More: b"}},
        {"extra_headers": {"X-Fleet": 3}},
        {"extra_headers": {"X Fleet": "a"}},
        {"api_key_header": "a:b"},
        {"ca_file": "no-such-file.pem"},
    ],
)
def test_a_setting_that_cannot_work_is_named(fields):
    with pytest.raises(ConfigError, match=r"openai") as caught:
        check_section(section(**fields))

    assert "secret" not in str(caught.value) or "base_url" in str(caught.value)


def test_a_good_section_passes():
    check_section(section(extra_body={"top_k": 1}, extra_headers={"X-Fleet": "a"}))


def test_the_key_comes_from_the_environment_or_from_a_file(monkeypatch, tmp_path):
    monkeypatch.setenv("FLEET_KEY", " k-1 ")
    (tmp_path / "key").write_text("k-2\n")

    assert read_api_key(section()) is None
    assert read_api_key(section(api_key_env="FLEET_KEY")).reveal() == "Bearer k-1"
    other = section(api_key_file=str(tmp_path / "key"), api_key_header="api-key")
    assert read_api_key(other).reveal() == "k-2"


@pytest.mark.parametrize(
    "fields",
    [
        {"api_key_env": "NO_SUCH_VARIABLE"},
        {"api_key_file": "no-such-file"},
        {"api_key_env": "A", "api_key_file": "b"},
    ],
)
def test_a_place_without_a_key_is_named(fields):
    with pytest.raises(ConfigError, match=r"openai\.api_key"):
        read_api_key(section(**fields))


def test_a_key_that_no_header_can_carry_is_refused_without_being_shown(monkeypatch):
    monkeypatch.setenv("FLEET_KEY", "secret\nX-More: b")

    with pytest.raises(ConfigError, match="one line") as caught:
        read_api_key(section(api_key_env="FLEET_KEY"))

    assert "secret" not in str(caught.value)


def test_a_key_is_never_shown(monkeypatch):
    monkeypatch.setenv("FLEET_KEY", "secret")
    key = read_api_key(section(api_key_env="FLEET_KEY"))

    assert "secret" not in f"{key} {key!r}"
    assert key.redact("key secret is wrong") == "key [key] is wrong"
    assert key.redact_bytes(b"key secret") == b"key [key]"


def test_a_key_in_plain_text_is_warned_of(monkeypatch, caplog):
    monkeypatch.setenv("FLEET_KEY", "secret")
    with caplog.at_level(logging.WARNING):
        read_api_key(section(base_url="http://127.0.0.1:1/v1", api_key_env="FLEET_KEY"))
        assert not caplog.records
        read_api_key(section(base_url="http://host/v1", api_key_env="FLEET_KEY"))

    assert "plain text" in caplog.text
    assert "secret" not in caplog.text
