"""Where credentials for AWS would be taken from: seen from the environment and its files. Contacts nobody."""

from __future__ import annotations

import configparser
from collections.abc import Mapping
from pathlib import Path

_USABLE = ("aws_access_key_id", "role_arn", "sso_session", "sso_start_url", "credential_process", "login_session")


def found_credentials(environ: Mapping[str, str]) -> str:
    """Where credentials are, in words, the place that counts first; empty where none are seen.

    Those of an instance's own role cannot be seen without asking for them. No secret is read into the answer.
    """
    profile = environ.get("AWS_PROFILE") or environ.get("AWS_DEFAULT_PROFILE") or "default"
    if "AWS_PROFILE" not in environ and environ.get("AWS_ACCESS_KEY_ID") and environ.get("AWS_SECRET_ACCESS_KEY"):
        return "in the environment (AWS_ACCESS_KEY_ID)"
    if "AWS_PROFILE" not in environ and environ.get("AWS_WEB_IDENTITY_TOKEN_FILE") and environ.get("AWS_ROLE_ARN"):
        return "by a token (AWS_WEB_IDENTITY_TOKEN_FILE)"
    folder = Path(environ.get("HOME") or Path.home()) / ".aws"
    places = (
        (environ.get("AWS_SHARED_CREDENTIALS_FILE"), folder / "credentials", profile),
        (environ.get("AWS_CONFIG_FILE"), folder / "config", profile if profile == "default" else f"profile {profile}"),
    )
    for said, usual, section in places:
        file = Path(said).expanduser() if said else usual
        if _has(file, section):
            return f"in {file}, profile {profile}"
    for name in ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI"):
        if environ.get(name):
            return f"from the container ({name})"
    return ""


def _has(file: Path, section: str) -> bool:
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read(file, encoding="utf-8")
        return any(parser.has_option(section, name) for name in _USABLE)
    except (OSError, UnicodeDecodeError, configparser.Error):
        return False
