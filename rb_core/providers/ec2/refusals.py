"""What AWS says when it does not obey, put into our own words in one place."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from typing import Any

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    EndpointConnectionError,
    HTTPClientError,
    NoAuthTokenError,
    NoCredentialsError,
    PartialCredentialsError,
    ProfileNotFound,
    SSOError,
    TokenRetrievalError,
)
from botocore.parsers import ResponseParserError

from rb_core.errors import InvalidInput, NoAnswer, RubberBandError


class RefusalKind(StrEnum):
    """In which way a call was refused, which decides what is done about it."""

    CAPACITY = "capacity"
    """There are not enough such instances in this zone and market now; elsewhere there may be."""
    UNOFFERED = "unoffered"
    """This zone does not have the type in this market at all."""
    QUOTA = "quota"
    """The account may not hold so many, in any zone of the region."""
    SPENT_TOKEN = "spent_token"
    """The call was obeyed before, and what it rented has ended."""
    TOKEN_MISMATCH = "token_mismatch"
    """The call's token was used before, for something else."""
    MISSING = "missing"
    """EC2 knows no such instance, or does not yet."""
    PROTECTED = "protected"
    """The instance is protected against being ended."""
    EXPIRED = "expired"
    """The credentials were good and are no longer."""
    CREDENTIALS = "credentials"
    """There are no credentials, or AWS does not accept them."""
    RIGHTS = "rights"
    """The identity may not do this."""
    INPUT = "input"
    """What was asked for does not exist or cannot be."""


_KINDS: dict[str, RefusalKind] = {
    **dict.fromkeys(
        (
            "InsufficientInstanceCapacity",
            "InsufficientHostCapacity",
            "InsufficientReservedInstanceCapacity",
            "InsufficientCapacity",
            "InsufficientFreeAddressesInSubnet",
            "SpotMaxPriceTooLow",
            "UnfulfillableCapacity",
        ),
        RefusalKind.CAPACITY,
    ),
    **dict.fromkeys(("Unsupported", "UnsupportedOperation"), RefusalKind.UNOFFERED),
    **dict.fromkeys(
        ("VcpuLimitExceeded", "InstanceLimitExceeded", "MaxSpotInstanceCountExceeded", "PendingVerification",
         "VolumeLimitExceeded", "MaxSpotFleetRequestCountExceeded"),
        RefusalKind.QUOTA,
    ),
    "IdempotentInstanceTerminated": RefusalKind.SPENT_TOKEN,
    "IdempotentParameterMismatch": RefusalKind.TOKEN_MISMATCH,
    **dict.fromkeys(("InvalidInstanceID.NotFound", "InvalidInstanceID.Malformed"), RefusalKind.MISSING),
    "OperationNotPermitted": RefusalKind.PROTECTED,
    **dict.fromkeys(("ExpiredToken", "ExpiredTokenException", "RequestExpired"), RefusalKind.EXPIRED),
    **dict.fromkeys(
        ("AuthFailure", "InvalidClientTokenId", "UnrecognizedClientException", "SignatureDoesNotMatch",
         "MissingAuthenticationToken", "IncompleteSignature"),
        RefusalKind.CREDENTIALS,
    ),
    **dict.fromkeys(
        ("UnauthorizedOperation", "AccessDenied", "AccessDeniedException", "OptInRequired", "Blocked"),
        RefusalKind.RIGHTS,
    ),
}  # fmt: skip

_UNANSWERED = frozenset(
    {
        "RequestLimitExceeded",
        "Throttling",
        "ThrottlingException",
        "EC2ThrottledException",
        "TooManyRequestsException",
        "InternalError",
        "InternalFailure",
        "ServiceUnavailable",
        "Unavailable",
        "RequestTimeout",
    }
)

_CREDENTIALS = (
    CredentialRetrievalError,
    NoAuthTokenError,
    NoCredentialsError,
    PartialCredentialsError,
    ProfileNotFound,
    SSOError,
    TokenRetrievalError,
)

_NAMED_RIGHT = re.compile(r"not authorized to perform: ([\w-]+:\w+)")
_ENCODED = re.compile(r"\s*Encoded authorization failure message:.*", re.DOTALL)
_WAYS_IN = "set AWS_PROFILE, run `aws sso login`, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"


class CallRefused(RubberBandError):
    """AWS refused a call, or nobody could sign it. It is certain that the call was not obeyed.

    Attributes:
        action: the call, as rights name it, such as ``ec2:RunInstances``.
        kind: in which way.
        code: AWS's own word for it; empty where the call never left.
        said: AWS's own sentence.
    """

    def __init__(self, action: str, kind: RefusalKind, *, code: str = "", said: str = "") -> None:
        super().__init__(f"AWS refused {action}: {code or kind.value}" + (f" ({said})" if said else ""))
        self.action = action
        self.kind = kind
        self.code = code
        self.said = said

    @property
    def right(self) -> str:
        """The right that is missing: the one that AWS names, else that of the call itself."""
        named = _NAMED_RIGHT.search(self.said)
        return named[1] if named else self.action

    def as_input(self) -> InvalidInput:
        """The same as an error of who gave the input: what to change."""
        match self.kind:
            case RefusalKind.CREDENTIALS if not self.code:
                return InvalidInput("", f"there are no AWS credentials that work ({self.said}); {_WAYS_IN}")
            case RefusalKind.CREDENTIALS:
                return InvalidInput("", f"AWS does not accept the credentials ({self.code}: {self.said}); {_WAYS_IN}")
            case RefusalKind.EXPIRED:
                return InvalidInput("", f"the AWS credentials have expired ({self.code}: {self.said}); {_WAYS_IN}")
            case RefusalKind.RIGHTS:
                return InvalidInput(
                    "",
                    f"this AWS identity may not do {self.right} ({self.code}: {self.said}); "
                    "grant that right, or use another identity",
                )
        return InvalidInput("cloud", f"{self.action} was refused ({self.code}: {self.said}); change what was asked for")


class StrandedNodes(RubberBandError):
    """Instances of a run are alive, and AWS no longer lets this program end them.

    Attributes:
        instances: when each ends by itself at the latest, in UTC, by its id.
    """

    def __init__(self, refused: CallRefused, instances: Mapping[str, str], lease_s: float) -> None:
        rows = ", ".join(f"{instance} (by {expires or 'its lifetime'})" for instance, expires in instances.items())
        said = f"{refused.code}: {refused.said}" if refused.code else refused.said
        super().__init__(
            f"AWS refused {refused.right} ({said}), so {len(instances)} instance(s) cannot be ended from here: {rows}. "
            f"Each ends by itself within {lease_s:.0f} s without this program where it has an agent, and at the time "
            "named at the latest; to end them now, log in again and run `rb-tune gc`"
        )
        self.instances = dict(instances)


@contextmanager
def answering(action: str) -> Iterator[None]:
    """Turn what botocore raises into errors of ours.

    Args:
        action: the call made within, as rights name it.

    Raises:
        NoAnswer: it is not known whether the call was obeyed, or it was put off; it can be repeated.
        CallRefused: it was not obeyed.
    """
    try:
        yield
    except ClientError as error:
        raise _told(action, error.response) from error
    except _CREDENTIALS as error:
        raise CallRefused(action, RefusalKind.CREDENTIALS, said=str(error)) from error
    except (HTTPClientError, EndpointConnectionError, ResponseParserError) as error:
        raise NoAnswer(f"{action}: {error}") from error
    except BotoCoreError as error:
        raise CallRefused(action, RefusalKind.INPUT, code=type(error).__name__, said=str(error)) from error


def _told(action: str, response: dict[str, Any]) -> RubberBandError:
    told = response.get("Error", {})
    code = str(told.get("Code", ""))
    said = _ENCODED.sub("", str(told.get("Message", ""))).strip()
    kind = _KINDS.get(code)
    if kind is None:
        status = int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
        if code in _UNANSWERED or status >= 500 or status == 429:
            return NoAnswer(f"{action}: {code} ({said})")
        kind = RefusalKind.INPUT
    return CallRefused(action, kind, code=code, said=said)
