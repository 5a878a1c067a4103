"""Objects in a bucket of a store that speaks S3: Cloudflare's R2, Amazon's own, or one that you run.

Only the settings decide where it is and which key opens it: the library would also listen to AWS_SESSION_TOKEN,
AWS_ENDPOINT_URL_S3 and their kin, which may be meant for something else. Every request has an end: it is repeated a
few times while the store is busy or silent, and then it is refused.
"""

import os
import re
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from obstore import copy_async, put_async
from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import S3Store

from duly.errors import DulyError, Misconfigured, NotFound, Unavailable
from duly.settings import Settings, variable_read_for

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig, S3Config, S3Credential

__all__ = ["Bucket", "open_bucket"]

CONNECT_SECONDS = 3
ANSWER_SECONDS = 30  # the bytes included
MAX_RETRIES = 3
RETRY_SECONDS = 15  # no retry begins later
SHOWN_CHARACTERS = 200

ENDPOINT = re.compile(
    r"(?P<scheme>https?)://(?P<host>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<path>(?:/[A-Za-z0-9._~-]+)*)/?"
)
REGION_OF_AMAZON = re.compile(r"s3[.-](?:dualstack\.)?([a-z]{2}-[a-z0-9-]+-[0-9])\.amazonaws\.com")
FIRST_REGION = "us-east-1"  # where Amazon looks for a bucket when nobody says

STATUS = re.compile(r"status code: (\d{3})")
CODE = re.compile(r"<Code>(\w{1,64})</Code>")
WRONG_REGION = {"AuthorizationHeaderMalformed", "InvalidRegionName", "PermanentRedirect", "TemporaryRedirect"}
BUSY_STATUS = {408, 409, 412, 425, 429}
BUSY_CODES = {"RequestTimeout", "SlowDown"}


@dataclass(frozen=True)
class Bucket:
    """A bucket, and the store that it is in."""

    name: str
    endpoint: str
    region: str
    store: S3Store

    async def put(self, name: str, data: bytes) -> None:
        """Keep bytes under a name, in one request: parts could be left behind."""
        try:
            await put_async(self.store, name, data, use_multipart=False)
        except FileNotFoundError:
            raise self.missing() from None

    async def copy(self, name: str, to: str) -> None:
        """Keep under one name what is under another."""
        await copy_async(self.store, name, to)

    def refusal_of(self, error: Exception, name: str) -> DulyError:
        """What the store answered, in words that name the setting and the fix."""
        text = str(error)
        status, code = int(first(STATUS, text) or 0), first(CODE, text)
        if code == "NoSuchBucket":
            return self.missing()
        if isinstance(error, FileNotFoundError):
            return NotFound(f"there is no object {name!r}")
        if code == "RequestTimeTooSkewed":
            return Misconfigured(f"the clock of this machine is not that of the store at {self.endpoint}; set it")
        if isinstance(error, PermissionDeniedError | UnauthenticatedError):
            return self.forbidden(code)
        if code in WRONG_REGION or 300 <= status < 400 or "redirect without LOCATION" in text:
            return self.elsewhere()
        if code in BUSY_CODES or status in BUSY_STATUS or not 400 <= status < 500:
            return self.silent(f"{status} {code}".strip() if status else cause_of(text))
        return self.refused(status, code)

    def missing(self) -> Misconfigured:
        """There is a store, and it knows no such bucket."""
        bucket, endpoint = variable_read_for("objects_bucket"), variable_read_for("objects_endpoint")
        return Misconfigured(
            f"there is no bucket {self.name!r} at {self.endpoint}; create it, or correct {bucket} or {endpoint}"
        )

    def forbidden(self, code: str) -> Misconfigured:
        """The key opens nothing, or not what we need."""
        return Misconfigured(
            f"the store at {self.endpoint} refuses the key{in_brackets(code)}; correct {key_variables()}, and let it "
            f"list, read, write and delete the objects of the bucket {self.name!r}"
        )

    def elsewhere(self) -> Misconfigured:
        """The bucket is there, in another region."""
        return Misconfigured(
            f"the bucket {self.name!r} is not in the region {self.region!r} of {self.endpoint}; set "
            f"{variable_read_for('objects_region')} to the bucket's own"
        )

    def refused(self, status: int, code: str) -> Misconfigured:
        """The store does not understand us; which part of the settings is to blame, it does not say."""
        return Misconfigured(
            f"the store at {self.endpoint} refuses our requests{in_brackets(f'{status} {code}'.strip())}; check "
            f"{variable_read_for('objects_endpoint')}, {variable_read_for('objects_bucket')} and {key_variables()}"
        )

    def silent(self, reason: str) -> Unavailable:
        """The store is busy, broken or out of reach, which may pass."""
        return Unavailable(
            f"the store at {self.endpoint} does not serve now ({reason}); if it lasts, check "
            f"{variable_read_for('objects_endpoint')}",
            public="the object store does not serve now; ask again later",
        )


def open_bucket(settings: Settings) -> Bucket:
    """The bucket that the settings name; nobody is asked yet whether it is there."""
    name, key_id, secret = settings.objects_bucket, settings.objects_key_id, settings.objects_secret
    assert name
    assert key_id
    assert secret
    region = region_of(settings)
    endpoint = check_endpoint(settings.objects_endpoint, name) if settings.objects_endpoint else amazon(region)
    key: S3Credential = {
        "access_key_id": key_id,
        "secret_access_key": secret.get_secret_value(),
        "token": None,
        "expires_at": None,
    }
    try:
        store = S3Store(
            name,
            prefix=settings.objects_prefix.strip("/") or None,
            config=config_of(endpoint, region),
            client_options=patience(endpoint),
            retry_config=persistence(),
            credential_provider=lambda: key,
        )
    except BaseError:  # which may repeat a value that is nobody's business
        raise misled() from None
    return Bucket(name, endpoint, region, store)


def misled() -> Misconfigured:
    """The refusal of a variable that we do not read, and the library does."""
    variables = ", ".join(sorted(variable for variable in os.environ if variable.startswith("AWS_")))
    return Misconfigured(f"a variable has a value that no store of S3 knows; correct or unset one of {variables}")


def config_of(endpoint: str, region: str) -> "S3Config":
    """Where the bucket is; what the library would read from the environment otherwise is said here."""
    return {
        "endpoint": endpoint,
        "aws_endpoint_url_s3": endpoint,
        "region": region,
        "skip_signature": False,
        "virtual_hosted_style_request": False,
        "disable_bulk_delete": True,  # which not every store knows
    }


def patience(endpoint: str) -> "ClientConfig":
    """How long one request may take, and whether it may go unencrypted, which the address must say."""
    return {
        "allow_http": endpoint.startswith("http://"),
        "allow_invalid_certificates": False,
        "connect_timeout": timedelta(seconds=CONNECT_SECONDS),
        "timeout": timedelta(seconds=ANSWER_SECONDS),
    }


def persistence() -> "RetryConfig":
    """How often, and for how long, a request is repeated."""
    return {
        "max_retries": MAX_RETRIES,
        "retry_timeout": timedelta(seconds=RETRY_SECONDS),
        "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=2), "base": 2},
    }


def check_endpoint(endpoint: str, bucket: str) -> str:
    """The address without a slash at its end; Misconfigured, which never repeats it, when it is none.

    The library does not look: it would panic at the first request.
    """
    variable = variable_read_for("objects_endpoint")
    found = ENDPOINT.fullmatch(endpoint)
    if not found or int(found["port"] or 0) > 65535:
        raise Misconfigured(
            f"{variable} is no address of a store; write one such as https://<account>.r2.cloudflarestorage.com"
        )
    if found["host"].startswith(f"{bucket}.") or found["path"].endswith(f"/{bucket}"):
        raise Misconfigured(f"{variable} has the name of the bucket, {bucket!r}, in it; leave it out of the address")
    return endpoint.rstrip("/")


def region_of(settings: Settings) -> str:
    """The region as set; Amazon knows none called "auto", so for it the one in the address, or else its first."""
    endpoint = settings.objects_endpoint or ""
    if settings.objects_region != "auto" or (endpoint and ".amazonaws.com" not in endpoint):
        return settings.objects_region
    return first(REGION_OF_AMAZON, endpoint) or FIRST_REGION


def amazon(region: str) -> str:
    """Amazon's own address for a region."""
    return f"https://s3.{region}.amazonaws.com{'.cn' if region.startswith('cn-') else ''}"


def first(pattern: re.Pattern[str], text: str) -> str:
    """What the pattern finds first, or nothing."""
    found = pattern.search(text)
    return found[1] if found else ""


def cause_of(text: str) -> str:
    """The last words of the library's first line, after the request and its retries."""
    return text.partition("\n")[0].rpartition(" - ")[2][:SHOWN_CHARACTERS]


def in_brackets(code: str) -> str:
    """The store's own word for it, if it gave one."""
    return f" ({code})" if code else ""


def key_variables() -> str:
    """The two variables that are the key."""
    return f"{variable_read_for('objects_key_id')} and {variable_read_for('objects_secret')}"
