"""A bucket is where the settings say; the error of a store that refuses or is silent says what to do."""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from duly.errors import DulyError, Misconfigured, NotFound
from duly.storage import ObjectStore, open_object_store
from duly.storage.bucket import Bucket
from tests.support.storage.s3_server import BUCKET, S3Server

KEY = "R2_ACCESS_KEY_ID and R2_SECRET_ACCESS_KEY"


async def all_errors(objects: ObjectStore) -> list[DulyError]:
    """What each of the five verbs is refused with."""
    refusals: list[DulyError] = []
    for operation in (
        objects.put("a", b"1"),
        objects.get("a", 1),
        objects.exists("a"),
        objects.copy("a", "b"),
        objects.remove(["a"]),
    ):
        with pytest.raises(DulyError) as refused:
            await operation
        refusals.append(refused.value)
    return refusals


@contextmanager
def answering(status: int, code: str) -> Generator[str, None, None]:
    """A store that always gives the same answer."""
    body = f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode()

    class Answer(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = answer  # noqa: N815

        def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


async def test_aws_environment_variables_do_not_change_the_bucket(
    s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in {
        "AWS_SESSION_TOKEN": "of something else",
        "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9",
        "AWS_SKIP_SIGNATURE": "true",
        "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "true",
        "AWS_BUCKET": "another",
        "AWS_REGION": "mars-1",
    }.items():
        monkeypatch.setenv(variable, value)
    objects = open_object_store(s3_server.settings(R2_REGION="auto"))
    await objects.put("from-settings", b"1")
    assert await objects.get("from-settings", 1) == b"1"


def test_conflicting_aws_variable_is_reported_without_its_value(
    s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_CHECKSUM_ALGORITHM", "hunter2")
    with pytest.raises(Misconfigured, match="AWS_CHECKSUM_ALGORITHM") as refused:
        open_object_store(s3_server.settings())
    assert "hunter2" not in str(refused.value)


async def test_every_object_key_starts_with_the_prefix(s3_server: S3Server) -> None:
    for prefix in ("pre/fix", "pre/fix/"):
        await open_object_store(s3_server.settings(R2_KEY_PREFIX=prefix)).put("a", prefix.encode())
        assert await open_object_store(s3_server.settings()).get("pre/fix/a", 100) == prefix.encode()


async def test_missing_bucket_is_refused_with_its_setting(s3_server: S3Server) -> None:
    for refused in await all_errors(open_object_store(s3_server.settings(R2_BUCKET="no-such-bucket"))):
        assert isinstance(refused, Misconfigured)
        assert "'no-such-bucket'" in str(refused)
        assert "R2_BUCKET" in str(refused)


@pytest.mark.parametrize("wrong", ["R2_ACCESS_KEY_ID", "R2_SECRET_ACCESS_KEY"])
async def test_wrong_credentials_are_refused_with_their_settings_and_not_shown(s3_server: S3Server, wrong: str) -> None:
    objects = open_object_store(s3_server.settings(**{wrong: "hunter2hunter2hunter2"}))
    for refused in await all_errors(objects):
        assert isinstance(refused, Misconfigured)
        assert KEY in str(refused)
        assert "hunter2" not in str(refused) + repr(objects)
        assert s3_server.secret not in str(refused) + repr(objects)


async def test_error_names_the_variable_that_was_set(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("S3_BUCKET", "no-such-bucket")
    with pytest.raises(Misconfigured, match="correct S3_BUCKET"):
        await open_object_store(s3_server.settings(R2_BUCKET="no-such-bucket")).put("a", b"")


async def test_missing_object_is_not_found_and_not_misconfigured(s3_server: S3Server) -> None:
    with answering(404, "NoSuchKey") as endpoint, pytest.raises(NotFound):
        await open_object_store(s3_server.settings(R2_ENDPOINT_URL=endpoint)).get("a", 1)


@pytest.mark.parametrize(
    "endpoint",
    [
        "nonsense",
        "ftp://host",
        "https://",
        "https://user:hunter2@host",
        "https://host?hunter2",
        "https://host#hunter2",
        "https://host:70000",
        "https://ho st",
        "http://[::1",
    ],
)
def test_invalid_endpoint_url_is_refused_and_not_shown(s3_server: S3Server, endpoint: str) -> None:
    with pytest.raises(Misconfigured, match="R2_ENDPOINT_URL is not a valid endpoint") as refused:
        open_object_store(s3_server.settings(R2_ENDPOINT_URL=endpoint))
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "endpoint", [f"https://account.r2.cloudflarestorage.com/{BUCKET}/", f"https://{BUCKET}.s3.eu-west-1.amazonaws.com"]
)
def test_endpoint_url_with_the_bucket_in_it_is_refused(s3_server: S3Server, endpoint: str) -> None:
    with pytest.raises(Misconfigured, match="R2_ENDPOINT_URL contains the name of the bucket"):
        open_object_store(s3_server.settings(R2_ENDPOINT_URL=endpoint))


@pytest.mark.parametrize(
    ("endpoint", "region", "expected"),
    [
        ("", "auto", ("https://s3.us-east-1.amazonaws.com", "us-east-1")),
        ("", "eu-central-1", ("https://s3.eu-central-1.amazonaws.com", "eu-central-1")),
        ("", "cn-north-1", ("https://s3.cn-north-1.amazonaws.com.cn", "cn-north-1")),
        ("https://s3.amazonaws.com", "auto", ("https://s3.amazonaws.com", "us-east-1")),
        ("https://s3.eu-west-3.amazonaws.com/", "auto", ("https://s3.eu-west-3.amazonaws.com", "eu-west-3")),
        ("https://s3.eu-west-3.amazonaws.com", "eu-west-1", ("https://s3.eu-west-3.amazonaws.com", "eu-west-1")),
        ("https://a.r2.cloudflarestorage.com", "auto", ("https://a.r2.cloudflarestorage.com", "auto")),
        ("https://a.supabase.co/storage/v1/s3", "eu-west-1", ("https://a.supabase.co/storage/v1/s3", "eu-west-1")),
        ("http://my_minio:9000", "auto", ("http://my_minio:9000", "auto")),
        ("http://[::1]:9000", "auto", ("http://[::1]:9000", "auto")),
    ],
)
def test_default_region_is_accepted_by_the_store(
    s3_server: S3Server, endpoint: str, region: str, expected: tuple[str, str]
) -> None:
    settings = s3_server.settings(R2_REGION=region).model_copy(update={"objects_endpoint": endpoint or None})
    backend = open_object_store(settings).backend
    assert isinstance(backend, Bucket)
    assert (backend.endpoint, backend.region) == expected


@pytest.mark.parametrize(("endpoint", "plain"), [("http://host", True), ("https://host", False)])
def test_only_an_http_endpoint_url_is_used_unencrypted(s3_server: S3Server, endpoint: str, plain: bool) -> None:
    backend = open_object_store(s3_server.settings(R2_ENDPOINT_URL=endpoint)).backend
    assert isinstance(backend, Bucket)
    options = backend.store.client_options
    assert options
    assert str(options.get("allow_http", False)).lower() == str(plain).lower()
