"""Objects in a bucket of an S3-compatible store: Cloudflare R2, Amazon S3, or a self-hosted one.

Only duly's settings decide the endpoint and the key: the library would also read AWS_SESSION_TOKEN, AWS_ENDPOINT_URL_S3
and other variables, which may be meant for another program. Every request is bounded: it is retried a few times while
the store is busy or does not respond, and then fails.
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

CONNECT_SECONDS = 3
REQUEST_SECONDS = 30  # including the body
MAX_RETRIES = 3
RETRY_SECONDS = 15  # no retry begins later
MAX_CAUSE_LENGTH = 200

ENDPOINT = re.compile(
    r"(?P<scheme>https?)://(?P<host>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<path>(?:/[A-Za-z0-9._~-]+)*)/?"
)
AMAZON_REGION = re.compile(r"s3[.-](?:dualstack\.)?([a-z]{2}-[a-z0-9-]+-[0-9])\.amazonaws\.com")
DEFAULT_AMAZON_REGION = "us-east-1"  # Amazon's default

STATUS_PATTERN = re.compile(r"status code: (\d{3})")
CODE_PATTERN = re.compile(r"<Code>(\w{1,64})</Code>")
WRONG_REGION = {"AuthorizationHeaderMalformed", "InvalidRegionName", "PermanentRedirect", "TemporaryRedirect"}
BUSY_STATUSES = {408, 409, 412, 425, 429}
BUSY_CODES = {"RequestTimeout", "SlowDown"}


@dataclass(frozen=True)
class Bucket:
    """A bucket of an S3-compatible store."""

    name: str
    endpoint: str
    region: str
    store: S3Store

    async def put(self, name: str, data: bytes) -> None:
        """Store bytes in one request; a multipart upload could leave parts behind."""
        try:
            await put_async(self.store, name, data, use_multipart=False)
        except FileNotFoundError:
            raise self.missing_bucket_error() from None

    async def copy(self, name: str, to: str) -> None:
        """Copy an object."""
        await copy_async(self.store, name, to)

    def to_duly_error(self, error: Exception, name: str) -> DulyError:
        """Convert an error of the library to one that names the setting and the fix."""
        text = str(error)
        status, code = int(find_first(STATUS_PATTERN, text) or 0), find_first(CODE_PATTERN, text)
        if code == "NoSuchBucket":
            return self.missing_bucket_error()
        if isinstance(error, FileNotFoundError):
            return NotFound(f"there is no object {name!r}")
        if code == "RequestTimeTooSkewed":
            return Misconfigured(
                f"the clock of this machine differs from that of the store at {self.endpoint}; synchronize it"
            )
        if isinstance(error, PermissionDeniedError | UnauthenticatedError):
            return self.forbidden_error(code)
        if code in WRONG_REGION or 300 <= status < 400 or "redirect without LOCATION" in text:
            return self.wrong_region_error()
        if code in BUSY_CODES or status in BUSY_STATUSES or not 400 <= status < 500:
            return self.unavailable_error(f"{status} {code}".strip() if status else extract_cause(text))
        return self.refused_error(status, code)

    def missing_bucket_error(self) -> Misconfigured:
        """Return the error for a bucket that does not exist."""
        bucket, endpoint = variable_read_for("objects_bucket"), variable_read_for("objects_endpoint")
        return Misconfigured(
            f"there is no bucket {self.name!r} at {self.endpoint}; create it, or correct {bucket} or {endpoint}"
        )

    def forbidden_error(self, code: str) -> Misconfigured:
        """Return the error for a key that is invalid or lacks permissions."""
        return Misconfigured(
            f"the store at {self.endpoint} refuses the key{in_parentheses(code)}; correct {key_variables()}, and "
            f"allow it to list, read, write and delete the objects of the bucket {self.name!r}"
        )

    def wrong_region_error(self) -> Misconfigured:
        """Return the error for a bucket in another region."""
        return Misconfigured(
            f"the bucket {self.name!r} is not in the region {self.region!r} of {self.endpoint}; set "
            f"{variable_read_for('objects_region')} to the bucket's own"
        )

    def refused_error(self, status: int, code: str) -> Misconfigured:
        """Return the error for a request that the store rejects without naming the wrong setting."""
        return Misconfigured(
            f"the store at {self.endpoint} rejects requests{in_parentheses(f'{status} {code}'.strip())}; check "
            f"{variable_read_for('objects_endpoint')}, {variable_read_for('objects_bucket')} and {key_variables()}"
        )

    def unavailable_error(self, reason: str) -> Unavailable:
        """Return the error for a store that is busy, broken or unreachable."""
        return Unavailable(
            f"the store at {self.endpoint} is unavailable ({reason}); if it lasts, check "
            f"{variable_read_for('objects_endpoint')}",
            public="the object store is unavailable; retry later",
        )


def open_bucket(settings: Settings) -> Bucket:
    """Return the configured bucket, without contacting the store."""
    name, key_id, secret = settings.objects_bucket, settings.objects_key_id, settings.objects_secret
    assert name
    assert key_id
    assert secret
    region = resolve_region(settings)
    endpoint = check_endpoint(settings.objects_endpoint, name) if settings.objects_endpoint else amazon_endpoint(region)
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
            config=build_config(endpoint, region),
            client_options=build_client_options(endpoint),
            retry_config=build_retry_config(),
            credential_provider=lambda: key,
        )
    except BaseError:  # its text may contain a secret value
        raise invalid_environment_error() from None
    return Bucket(name, endpoint, region, store)


def invalid_environment_error() -> Misconfigured:
    """Return the error for an invalid AWS_ variable that the library reads and duly does not."""
    variables = ", ".join(sorted(variable for variable in os.environ if variable.startswith("AWS_")))
    return Misconfigured(f"an environment variable has an invalid value for S3; correct or unset one of {variables}")


def build_config(endpoint: str, region: str) -> "S3Config":
    """Return the location of the bucket, overriding what the library would read from the environment."""
    return {
        "endpoint": endpoint,
        "aws_endpoint_url_s3": endpoint,
        "region": region,
        "skip_signature": False,
        "virtual_hosted_style_request": False,
        "disable_bulk_delete": True,  # not every store supports it
    }


def build_client_options(endpoint: str) -> "ClientConfig":
    """Return the timeouts of a request; unencrypted HTTP is allowed only for an http:// endpoint."""
    return {
        "allow_http": endpoint.startswith("http://"),
        "allow_invalid_certificates": False,
        "connect_timeout": timedelta(seconds=CONNECT_SECONDS),
        "timeout": timedelta(seconds=REQUEST_SECONDS),
    }


def build_retry_config() -> "RetryConfig":
    """Return how often and for how long a request is retried."""
    return {
        "max_retries": MAX_RETRIES,
        "retry_timeout": timedelta(seconds=RETRY_SECONDS),
        "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=2), "base": 2},
    }


def check_endpoint(endpoint: str, bucket: str) -> str:
    """Return the endpoint without a trailing slash; raises Misconfigured, without the value, if it is invalid.

    The library does not validate it and would panic at the first request.
    """
    variable = variable_read_for("objects_endpoint")
    found = ENDPOINT.fullmatch(endpoint)
    if not found or int(found["port"] or 0) > 65535:
        raise Misconfigured(
            f"{variable} is not a valid endpoint; set it to one such as https://<account>.r2.cloudflarestorage.com"
        )
    if found["host"].startswith(f"{bucket}.") or found["path"].endswith(f"/{bucket}"):
        raise Misconfigured(f"{variable} contains the name of the bucket, {bucket!r}; remove it from the endpoint")
    return endpoint.rstrip("/")


def resolve_region(settings: Settings) -> str:
    """Return the configured region; for "auto" at Amazon, the one in the endpoint or its default."""
    endpoint = settings.objects_endpoint or ""
    if settings.objects_region != "auto" or (endpoint and ".amazonaws.com" not in endpoint):
        return settings.objects_region
    return find_first(AMAZON_REGION, endpoint) or DEFAULT_AMAZON_REGION


def amazon_endpoint(region: str) -> str:
    """Return Amazon's endpoint for a region."""
    return f"https://s3.{region}.amazonaws.com{'.cn' if region.startswith('cn-') else ''}"


def find_first(pattern: re.Pattern[str], text: str) -> str:
    """Return the first group of the first match, or an empty string."""
    found = pattern.search(text)
    return found[1] if found else ""


def extract_cause(text: str) -> str:
    """Return the cause at the end of the first line of the library's error, after the request and its retries."""
    return text.partition("\n")[0].rpartition(" - ")[2][:MAX_CAUSE_LENGTH]


def in_parentheses(code: str) -> str:
    """Return the store's error code in parentheses, if there is one."""
    return f" ({code})" if code else ""


def key_variables() -> str:
    """Return the names of the two variables of the key."""
    return f"{variable_read_for('objects_key_id')} and {variable_read_for('objects_secret')}"
