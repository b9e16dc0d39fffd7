"""The generated secrets of a data folder."""

import json
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from launch import keys
from launch.words import Refusal


def test_secrets_are_made_once_for_their_owner_alone(tmp_path: Path) -> None:
    made = keys.ensure(tmp_path)
    assert set(made) == {"secret_key", "vault_keys", "join_token"}
    assert Fernet(made["vault_keys"])
    assert (tmp_path / "secrets.json").stat().st_mode & 0o777 == 0o600
    assert keys.ensure(tmp_path) == made


def test_a_missing_secret_is_added_and_the_others_stay(tmp_path: Path) -> None:
    keys.write_private(tmp_path / "secrets.json", json.dumps({"secret_key": "old", "vault_keys": "a,b"}))
    made = keys.ensure(tmp_path)
    assert (made["secret_key"], made["vault_keys"]) == ("old", "a,b")
    assert made["join_token"]


def test_keys_that_are_gone_are_not_made_anew_beside_a_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TAIJI_VAULT_KEYS", raising=False)
    (tmp_path / "taiji.sqlite3").touch()
    with pytest.raises(Refusal, match="restore it from a backup"):
        keys.ensure(tmp_path)
    assert not (tmp_path / "secrets.json").exists()
    (tmp_path / "secrets.json").write_text("{}")
    assert keys.ensure(tmp_path)["vault_keys"]


def test_a_broken_file_of_secrets_is_refused_and_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "secrets.json").write_text("{")
    with pytest.raises(Refusal, match="restore it from a backup"):
        keys.ensure(tmp_path)
    assert (tmp_path / "secrets.json").read_text() == "{"
