"""Webhooks: signed, to public addresses only, without redirects, read and waited for only so far."""

import asyncio
import ssl
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import httpcore2
import httpx2
import pytest
from standardwebhooks import Webhook as Verifier

from duly.outbox.channel import Contact, NotSent, OutboundMessage, Undeliverable
from duly.outbox.channels.public_addresses import is_public
from duly.outbox.channels.webhook import WebhookChannel, addresses, parse_retry_after
from duly.outbox.channels.webhook.addresses import PublicAddresses
from tests.support.outbox.actions import SECRET
from tests.support.outbox.log_capture import capture_log_lines
from tests.support.outbox.receiver import Answer, Receiver
from tests.support.outbox.servers import certificate_for, tls_server


def message(url: str | None, **payload: object) -> OutboundMessage:
    """Create a message to a person with this address."""
    contact = Contact("anna", webhook_url=url, webhook_secret=SECRET if url else None)
    return OutboundMessage(
        "0194f3c2-0000-7000-8000-000000000001", "webhook", "anna", "test.word", payload, "2026-11-16T10:00:00Z", contact
    )


@pytest.fixture
def webhook() -> WebhookChannel:
    """One that may go to this machine."""
    return WebhookChannel(seconds=5, allow_private=True)


async def test_a_message_is_posted_and_signed(webhook: WebhookChannel, receiver: Receiver) -> None:
    assert await webhook.send(message(receiver.url, text="hej å 你")) == "HTTP 204"
    (posted,) = receiver.posted
    assert posted.id == "0194f3c2-0000-7000-8000-000000000001"
    body = Verifier(SECRET).verify(posted.body, posted.headers)
    assert body == {"type": "test.word", "timestamp": "2026-11-16T10:00:00Z", "data": {"text": "hej å 你"}}
    with pytest.raises(Exception, match="signature"):
        Verifier(SECRET).verify(posted.body.replace(b"hej", b"nej"), posted.headers)
    await webhook.close()


@pytest.mark.parametrize("status", [408, 421, 429, 500, 502, 503])
async def test_temporary_http_error_is_retried(status: int, webhook: WebhookChannel, receiver: Receiver) -> None:
    receiver.answer = lambda _: Answer(status, (("retry-after", "17"),))
    with pytest.raises(NotSent, match=f"HTTP {status}") as refusal:
        await webhook.send(message(receiver.url))
    assert refusal.value.retry_after == 17


@pytest.mark.parametrize("status", [400, 401, 404, 410, 413])
async def test_permanent_http_error_is_undeliverable(status: int, webhook: WebhookChannel, receiver: Receiver) -> None:
    receiver.answer = lambda _: Answer(status)
    with pytest.raises(Undeliverable, match=f"HTTP {status}"):
        await webhook.send(message(receiver.url))


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_redirects_are_not_followed(status: int, webhook: WebhookChannel, receiver: Receiver) -> None:
    receiver.answer = lambda _: Answer(status, (("location", receiver.url + "/secret"),))
    with pytest.raises(Undeliverable, match="redirects are not followed"):
        await webhook.send(message(receiver.url))
    assert len(receiver.posted) == 1


async def test_response_is_read_only_up_to_a_limit(webhook: WebhookChannel, receiver: Receiver) -> None:
    receiver.answer = lambda _: Answer(200, (), b"x" * 50_000_000)
    assert await webhook.send(message(receiver.url)) == "HTTP 200"


async def test_response_is_awaited_only_until_the_timeout(receiver: Receiver) -> None:
    receiver.gate.clear()
    with pytest.raises(NotSent, match="Timeout"):
        await WebhookChannel(seconds=0.2, allow_private=True).send(message(receiver.url))


async def test_an_unreachable_server_is_retried(webhook: WebhookChannel) -> None:
    with pytest.raises(NotSent, match="ConnectError"):
        await webhook.send(message("http://127.0.0.1:9/hook"))


async def test_a_recipient_without_a_webhook_is_undeliverable(webhook: WebhookChannel) -> None:
    with pytest.raises(Undeliverable, match="has no webhook URL; set one with: duly people set anna --webhook"):
        await webhook.send(message(None))


@pytest.mark.parametrize("level", ["debug", "info"])
async def test_webhook_url_is_not_logged(level: str, webhook: WebhookChannel, receiver: Receiver) -> None:
    with capture_log_lines(level) as lines:
        await webhook.send(message(receiver.url + "/hunter2"))
    assert "hunter2" not in lines.getvalue()


# Addresses ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/hook",
        "http://localhost/hook",
        "http://[::1]/hook",
        "http://10.1.2.3/",
        "http://192.168.1.1/",
        "http://169.254.169.254/latest/meta-data",
        "http://[::ffff:127.0.0.1]/",
        "http://0.0.0.0/",
        "http://2130706433/",
        "http://0x7f.1/",
    ],
)
async def test_private_addresses_are_refused(url: str) -> None:
    with pytest.raises((Undeliverable, NotSent)) as refusal:
        await WebhookChannel(seconds=2).send(message(url))
    assert "not a public address" in str(refusal.value) or "cannot be resolved" in str(refusal.value)


@pytest.mark.parametrize("url", ["ftp://example.org/", "file:///etc/passwd", "gopher://x/"])
async def test_schemes_other_than_http_are_refused(url: str) -> None:
    with pytest.raises((Undeliverable, NotSent)):
        await WebhookChannel(seconds=2).send(message(url))


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("93.184.216.34", True),
        ("2606:2800:220:1::1", True),
        ("::ffff:93.184.216.34", True),
        ("64:ff9b::5db8:d822", True),
        ("2002:5db8:d822::1", True),
        ("127.0.0.1", False),
        ("100.64.0.1", False),
        ("224.0.0.1", False),
        ("::ffff:10.0.0.1", False),
        ("64:ff9b::7f00:1", False),
        ("2002:7f00:1::", False),
        ("fe80::1%eth0", False),
        ("fd00::1", False),
        ("::", False),
        ("::1", False),
        ("168.63.129.16", False),  # where a machine of Azure's finds its wire server
        ("::ffff:168.63.129.16", False),
        ("192.0.0.192", False),  # where one of Oracle's finds what it is
        ("64:ff9b:1::7f00:1", False),
        ("fec0::1", False),
        ("::127.0.0.1", False),
        ("::ffff:0:127.0.0.1", False),
        ("3fff::1", False),
        ("5f00::1", False),
        ("2001:db8::1", False),
        ("ff02::1", False),
    ],
)
def test_public_addresses_are_distinguished_from_private_ones(address: str, expected: bool) -> None:
    assert is_public(address) is expected


class RecordingTransport(httpx2.AsyncBaseTransport):
    """Where requests would have gone."""

    def __init__(self) -> None:
        self.went: list[tuple[str, str, str]] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Note it, and answer."""
        self.went.append((request.url.host, request.headers["host"], str(request.extensions["sni_hostname"])))
        return httpx2.Response(204)


async def test_dns_rebinding_to_a_private_address_is_refused() -> None:
    answers: list[Sequence[str]] = [["93.184.216.34"], ["127.0.0.1"], ["93.184.216.34", "10.0.0.7"]]
    resolved: list[str] = []

    async def resolve(host: str, port: int) -> Sequence[str]:
        resolved.append(f"{host}:{port}")
        return answers[len(resolved) - 1]

    inner = RecordingTransport()
    async with httpx2.AsyncClient(transport=PublicAddresses(inner, resolve=resolve)) as client:
        await client.post("https://rebind.example/hook")
        for _ in range(2):
            with pytest.raises(Undeliverable, match="not a public address"):
                await client.post("https://rebind.example/hook")
    assert inner.went == [("93.184.216.34", "rebind.example", "rebind.example")]  # and nowhere else
    assert resolved == ["rebind.example:443"] * 3


# TLS and names --------------------------------------------------------------------------------------------------------


Trust = Callable[..., tuple[Path, list[str]]]


@pytest.fixture
def trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trust:
    """Makes a certificate that is believed here, and lets every name lead to this machine; the names are remembered."""

    def make(*names: str) -> tuple[Path, list[str]]:
        certificate, resolved = certificate_for(names, tmp_path), list[str]()

        async def resolve(host: str, _port: int) -> Sequence[str]:
            resolved.append(host)
            return ["127.0.0.1"]

        def believe(**_: object) -> ssl.SSLContext:
            return ssl.create_default_context(cafile=certificate)

        monkeypatch.setattr(addresses, "resolve_host", resolve)
        monkeypatch.setattr(httpcore2, "default_ssl_context", believe)
        return certificate, resolved

    return make


async def test_connection_verified_for_one_host_is_not_reused_for_another(
    webhook: WebhookChannel, trusted: Trust
) -> None:
    certificate, _ = trusted("one.example")
    async with tls_server(certificate) as server:
        assert await webhook.send(message(f"https://one.example:{server.port}/hook")) == "HTTP 204"
        with pytest.raises(NotSent, match=r"certificate is not valid for 'two\.example'"):
            await webhook.send(message(f"https://two.example:{server.port}/hook"))
        await webhook.close()
    assert server.handshakes == ["one.example", "two.example"]
    assert server.hosts == [f"one.example:{server.port}"]


async def test_concurrent_messages_use_separate_connections(webhook: WebhookChannel, trusted: Trust) -> None:
    names = ["one.example", "two.example"] * 8
    certificate, _ = trusted(*set(names))
    async with tls_server(certificate) as server:
        urls = [f"https://{name}:{server.port}/hook" for name in names]
        assert await asyncio.gather(*(webhook.send(message(url)) for url in urls)) == ["HTTP 204"] * len(names)
        assert await asyncio.gather(*(webhook.send(message(url)) for url in urls)) == ["HTTP 204"] * len(names)
        await webhook.close()
    assert sorted(map(str, server.handshakes)) == sorted(names * 2)


async def test_internationalized_host_is_resolved_and_verified_under_one_name(
    webhook: WebhookChannel, trusted: Trust
) -> None:
    written, other = "xn--strae-oqa.de", "strasse.de"  # straße.de, which an older standard takes for the other
    certificate, resolved = trusted(written, other)
    async with tls_server(certificate) as server:
        assert await webhook.send(message(f"https://{written}:{server.port}/hook")) == "HTTP 204"
        await webhook.close()
    assert resolved == [written]
    assert server.handshakes == [written]
    assert server.hosts == [f"{written}:{server.port}"]


def test_retry_after_is_parsed_as_seconds_or_a_date() -> None:
    assert parse_retry_after("120") == 120
    assert parse_retry_after(None) is None
    assert parse_retry_after("soon") is None
    assert parse_retry_after("99999999999") == 86_400
    soon = parse_retry_after(format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True))
    assert soon is not None
    assert 50 < soon <= 60
    assert parse_retry_after("Wed, 21 Oct 2015 07:28:00 GMT") == 0
