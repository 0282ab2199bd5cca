from __future__ import annotations

import re
from pathlib import Path

import pytest
import tomllib
from hypothesis import given
from hypothesis import strategies as st

from server.config import Config, ConfigError, from_tree, load, render


def test_the_printed_defaults_load_back_equal(tmp_path: Path) -> None:
    path = tmp_path / "server.toml"
    path.write_text(render(Config()), encoding="utf-8")

    assert load(path) == Config()


_VALUES = st.one_of(
    st.text(), st.booleans(), st.integers(-9, 9), st.lists(st.text(max_size=3), max_size=2)
)


@given(
    host=st.text(),
    port=st.integers(0, 65535),
    cap=st.one_of(st.none(), st.integers(0, 100)),
    delay_s=st.floats(0, 3600),
    options=st.dictionaries(st.text(), _VALUES, max_size=3),
    policy=st.text(min_size=1),
)
def test_any_printed_configuration_loads_back_equal(
    host: str,
    port: int,
    cap: int | None,
    delay_s: float,
    options: dict[str, object],
    policy: str,
) -> None:
    tree: dict[str, dict[str, object]] = {
        "server": {"host": host, "port": port},
        "admission": {} if cap is None else {"cap": cap},
        "brain": {"delay_s": delay_s, "options": options},
        "policies": {policy: {"max_batch": 3}},
    }
    config = from_tree(tree)

    assert from_tree(tomllib.loads(render(config))) == config


def test_every_setting_is_explained_where_it_is_printed() -> None:
    lines = render(Config()).splitlines()
    settings = [i for i, line in enumerate(lines) if re.match(r"(# )?[a-z_]+ =( |$)", line)]

    assert len(settings) > 30
    assert all(lines[i - 1].startswith("# ") for i in settings)


def test_an_unknown_key_lists_the_near_ones() -> None:
    with pytest.raises(
        ConfigError, match=r"unknown setting brain\.dely_s; did you mean brain\.delay_s"
    ):
        from_tree({"brain": {"dely_s": 1.0}})


def test_an_unknown_section_lists_the_near_ones() -> None:
    with pytest.raises(ConfigError, match="unknown setting episode; did you mean episodes"):
        from_tree({"episode": {}})


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"server": {"port": "80"}}, r"server\.port is '80'; allowed: a whole number"),
        ({"server": {"port": True}}, r"server\.port is True; allowed: a whole number"),
        ({"server": {"port": -1}}, r"server\.port is -1; allowed: >= 0 and <= 65535"),
        ({"server": {"roles": ["brian"]}}, r"server\.roles is 'brian'; allowed: brain, policy"),
        ({"server": {"roles": []}}, r"server\.roles is \[\]; allowed: at least one"),
        ({"brain": {"delay_s": float("nan")}}, r"brain\.delay_s is nan"),
        ({"admission": {"policy": "cap"}}, r"allowed: unlimited, static-cap"),
        ({"policies": {"x": {"kind": "factory"}}}, r"policies\.x\.factory is ''; allowed"),
        ({"episodes": {"lease_ttl_s": 3.0}}, r"episodes\.heartbeat_interval_s is 2\.0; allowed"),
        ({"server": 3}, r"server is a section"),
        ({"tls": {"key_file": "k"}}, "must be given together"),
        (
            {"policies": {"x": {"added_latency_s": 5.0, "infer_timeout_s": 5.0}}},
            r"policies.x.infer_timeout_s is 5.0; allowed: more than .* \(5.0\)",
        ),
    ],
)
def test_a_wrong_value_names_key_value_and_what_is_allowed(
    tree: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        from_tree(tree)


def test_set_changes_one_value_of_any_kind() -> None:
    config = load(
        None,
        [
            "admission.policy=static-cap",
            "admission.cap=3",
            "episodes.lease_ttl_s=20",
            'server.roles=["policy"]',
            "policies.flow-libero.added_latency_s=0.1",
        ],
    )

    assert (config.admission.policy, config.admission.cap) == ("static-cap", 3)
    assert config.episodes.lease_ttl_s == 20.0
    assert config.server.roles == ["policy"]
    assert config.policies["flow-libero"].added_latency_s == 0.1
    assert config.policies["flow-libero"].kind == "flow"


def test_set_keeps_the_files_other_policies(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text('[policies.mine]\nkind = "factory"\nfactory = "a:b"\n')

    config = load(path, ["policies.mine.workers=2"])

    assert list(config.policies) == ["mine"]
    assert config.policies["mine"].workers == 2


@pytest.mark.parametrize("text", ["cap=3", "admission.cap", "=3", ".=", "server.port.x=1"])
def test_a_malformed_set_says_how_to_write_it(text: str) -> None:
    with pytest.raises(ConfigError):
        load(None, ["server.port=1", text])


def test_broken_toml_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text("[server\n")

    with pytest.raises(ConfigError, match=r"c\.toml is not valid TOML"):
        load(path)


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_bytes(b"\x7fELF\xc0")

    with pytest.raises(ConfigError, match=r"c\.toml is not UTF-8 text"):
        load(path)
