"""Apprise: whatever service a person's address names, the words arrive, and nothing else of this machine is reached."""

import asyncio
import gzip
import json
import logging
import os
import subprocess
import tracemalloc
from collections.abc import AsyncGenerator, Generator
from io import StringIO
from pathlib import Path
from urllib.parse import quote

import pytest

from duly.errors import InvalidArgument
from duly.outbox.channel import AnswerLink, Contact, NotSent, OutboundMessage, OutcomeUnknown, Undeliverable
from duly.outbox.channels.apprise import AppriseChannel
from duly.outbox.channels.apprise.address import create_sandbox, load_apprise, validate_address
from duly.outbox.channels.apprise.sandbox import PluginSandbox, sandboxed
from tests.support.actions import working
from tests.support.outbox.actions import MessageActions, send_work
from tests.support.outbox.log_capture import capture_log_lines
from tests.support.outbox.mailbox import Mailbox, mailbox
from tests.support.outbox.receiver import Answer, Receiver
from tests.support.outbox.servers import flood_server

MESSAGE_TEXT = "Hyra på Åsögatan\nSka göras 2026-12-01 åäö 中文 ✓"
LINKS = (AnswerLink("Klart", "https://duly.example/c/abc.def"), AnswerLink("跳过", "https://duly.example/c/ghi.jkl"))


def message(address: str | None, text: str = MESSAGE_TEXT, links: tuple[AnswerLink, ...] = ()) -> OutboundMessage:
    """Create a message to a person with this address."""
    contact = Contact("anna", apprise_url=address)
    return OutboundMessage(
        "0194f3c2-0000-7000-8000-000000000001", "apprise", "anna", "t", {"text": text}, "now", contact, links
    )


def at(receiver: Receiver, scheme: str, rest: str = "") -> str:
    """The receiver as a service of this kind."""
    return f"{scheme}://127.0.0.1:{receiver.server.server_port}/{rest}"


@pytest.fixture
async def channel() -> AsyncGenerator[AppriseChannel, None]:
    """One that may reach this machine."""
    here = AppriseChannel(seconds=20, allow_private=True)
    yield here
    await here.close()


@pytest.fixture
def mail() -> Generator[Mailbox, None, None]:
    """A server that takes mail."""
    with mailbox() as box:
        yield box


@pytest.fixture
def logged() -> Generator[StringIO, None, None]:
    """All that ends in the log of a process, whatever its level."""
    root, before = logging.getLogger(), logging.getLogger().level
    handler = logging.StreamHandler(StringIO())
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield handler.stream
    root.setLevel(before)
    root.removeHandler(handler)


# What arrives ---------------------------------------------------------------------------------------------------------


async def test_json_service_receives_the_message_in_unicode(channel: AppriseChannel, receiver: Receiver) -> None:
    receiver.answer = lambda _: Answer(200)
    assert await channel.send(message(at(receiver, "json"), links=LINKS)) == "json"
    posted_body = json.loads(receiver.posted[0].body)
    assert posted_body["title"] == "Hyra på Åsögatan"
    assert posted_body["message"] == (
        "Ska göras 2026-12-01 åäö 中文 ✓\n\nKlart: https://duly.example/c/abc.def\n跳过: https://duly.example/c/ghi.jkl"
    )


@pytest.mark.parametrize(("scheme", "rest"), [("ntfy", "topic"), ("gotify", "token"), ("form", ""), ("xml", "")])
async def test_other_services_receive_the_message(
    scheme: str, rest: str, channel: AppriseChannel, receiver: Receiver
) -> None:
    receiver.answer = lambda _: Answer(200, (("content-type", "application/json"),), b'{"id": 1}')
    assert await channel.send(message(at(receiver, scheme, rest))) == scheme
    (posted,) = receiver.posted
    body = posted.body.decode()
    written = (json.dumps("åäö 中文")[1:-1], "åäö 中文", quote("åäö 中文", safe="").replace("%20", "+"))
    assert any(each in body for each in written), body


async def test_mail_service_receives_the_message_in_unicode(channel: AppriseChannel, mail: Mailbox) -> None:
    address = f"mailto://anna:pw@127.0.0.1:{mail.port}/?from=duly@example.com&to=anna@example.com&mode=insecure&user="
    assert await channel.send(message(address, links=LINKS)) == "mailto"
    (received_mail,) = mail.mails
    assert received_mail["subject"] == "Hyra på Åsögatan"
    assert "anna@example.com" in received_mail["to"]
    text = mail.text()
    assert "åäö 中文 ✓" in text
    assert "https://duly.example/c/abc.def" in text


async def test_a_message_of_one_line_has_no_title(channel: AppriseChannel, receiver: Receiver) -> None:
    await channel.send(message(at(receiver, "json"), "Bara en rad"))
    posted_body = json.loads(receiver.posted[0].body)
    assert (posted_body["title"], posted_body["message"]) == ("", "Bara en rad")


# What does not --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 503])
async def test_http_error_response_is_retried(status: int, channel: AppriseChannel, receiver: Receiver) -> None:
    receiver.answer = lambda _: Answer(status)
    with pytest.raises(NotSent, match=f"json: not accepted, HTTP {status}"):
        await channel.send(message(at(receiver, "json")))
    assert len(receiver.posted) == 1  # the sender tries again, not the plugin


async def test_apprise_url_parameters_cannot_ignore_failures_or_add_retries(
    channel: AppriseChannel, receiver: Receiver
) -> None:
    receiver.answer = lambda _: Answer(500)
    with pytest.raises(NotSent):
        await channel.send(message(at(receiver, "json", "?optional=yes&retry=5&wait=0")))
    assert len(receiver.posted) == 1


async def test_refused_mail_is_retried(channel: AppriseChannel, mail: Mailbox) -> None:
    mail.answer = "451 later"
    address = f"mailto://127.0.0.1:{mail.port}/?from=duly@example.com&to=anna@example.com&mode=insecure"
    with pytest.raises(NotSent, match="mailto: not accepted"):
        await channel.send(message(address))


async def test_an_unreachable_server_is_retried(channel: AppriseChannel) -> None:
    with pytest.raises(NotSent, match="json: not accepted"):
        await channel.send(message("json://127.0.0.1:9/"))


async def test_unknown_service_is_undeliverable(channel: AppriseChannel) -> None:
    with pytest.raises(Undeliverable, match="nonsense: Apprise does not know this service"):
        await channel.send(message("nonsense://secret-token"))


async def test_a_recipient_without_an_apprise_url_is_undeliverable(channel: AppriseChannel) -> None:
    with pytest.raises(Undeliverable, match="duly people set anna --apprise SERVICE://"):
        await channel.send(message(None))


async def received_mail(reader: asyncio.StreamReader) -> bytes | None:
    """Return what came within a moment: empty at the end of a connection, None if nothing came."""
    try:
        return await asyncio.wait_for(reader.read(65536), 0.02)
    except TimeoutError:
        return None


# How much it may answer -----------------------------------------------------------------------------------------------

MEGABYTE = 1_048_576
CHUNKED = b"transfer-encoding: chunked\r\n"
CHUNK = b"10000\r\n" + b"x" * 65_536 + b"\r\n"


@pytest.mark.parametrize(("head", "piece"), [(b"", b"x" * 65_536), (CHUNKED, CHUNK)], ids=["whole", "in chunks"])
async def test_endless_response_is_read_only_up_to_a_limit(head: bytes, piece: bytes, channel: AppriseChannel) -> None:
    async with flood_server(piece, head=head) as server:
        assert await channel.send(message(f"json://127.0.0.1:{server.port}/")) == "json"
    assert server.sent < 32 * MEGABYTE  # what was read, and what lay in the buffers of two sockets


@pytest.mark.parametrize("times", [1, 2], ids=["packed", "packed twice"])
async def test_compressed_response_is_decompressed_only_up_to_a_limit(times: int, channel: AppriseChannel) -> None:
    bomb = gzip.compress(bytes(16 * MEGABYTE)) * 8
    for _ in range(times - 1):
        bomb = gzip.compress(bomb)
    head = b"content-encoding: " + b", ".join([b"gzip"] * times) + b"\r\ncontent-length: %d\r\n" % len(bomb)
    load_apprise()
    async with flood_server(bomb, head=head, limit=1) as server:
        tracemalloc.start()
        try:
            assert await channel.send(message(f"json://127.0.0.1:{server.port}/")) == "json"
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 16 * MEGABYTE


def test_plugin_reads_compressed_and_plain_responses_up_to_the_limit(receiver: Receiver) -> None:
    posted_body = {"words": "åäö" * 1000}
    packed = gzip.compress(json.dumps(posted_body).encode())
    receiver.answer = lambda _: Answer(200, (("content-encoding", "gzip"), ("set-cookie", "a=b")), packed)
    load_apprise()
    import requests

    with sandboxed(create_sandbox(True)) as sandbox:
        answer = requests.post(receiver.url, timeout=10)
        assert answer.json() == posted_body
        assert answer.cookies["a"] == "b"
        receiver.answer = lambda _: Answer(200, (), b"x" * 2 * MEGABYTE)
        assert len(requests.post(receiver.url, timeout=10).content) == MEGABYTE
        with requests.post(receiver.url, timeout=10, stream=True) as cut:
            assert sum(len(piece) for piece in cut.iter_content(1000)) == MEGABYTE
    sandbox.close()
    assert len(requests.post(receiver.url, timeout=10).content) == 2 * MEGABYTE  # and other processes are not limited


# Where it may go ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "address",
    [
        "json://127.0.0.1/",
        "json://localhost/",
        "json://[::1]/",
        "json://10.1.2.3/",
        "json://169.254.169.254/latest/meta-data",
        "json://2130706433/",
        "gotify://192.168.0.1/token",
        "mailto://127.0.0.1:25/?from=a@example.com&to=b@example.com",
        "rsyslog://127.0.0.1/",
    ],
)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # sockets that a plugin leaves open
async def test_private_addresses_are_not_connected_to(address: str) -> None:
    channel = AppriseChannel(seconds=20)
    with pytest.raises(Undeliverable, match="is not a public address"):
        await channel.send(message(address))
    await channel.close()


async def test_a_service_that_closes_the_connection_without_a_response_is_uncertain(
    channel: AppriseChannel, receiver: Receiver
) -> None:
    receiver.answer = lambda _: None
    with pytest.raises(OutcomeUnknown, match="before a response arrived"):
        await channel.send(message(at(receiver, "json")))
    assert len(receiver.posted) == 1


async def test_unreachable_service_is_reported_as_not_sent(channel: AppriseChannel) -> None:
    with pytest.raises(NotSent, match="not accepted"):
        await channel.send(message("json://127.0.0.1:9/"))


async def test_redirects_are_not_followed_even_if_the_url_asks_for_it(
    channel: AppriseChannel, receiver: Receiver
) -> None:
    receiver.answer = lambda _: Answer(307, (("location", receiver.url),))
    with pytest.raises(NotSent):
        await channel.send(message(at(receiver, "json", "?redirect=yes")))
    assert len(receiver.posted) == 1


async def test_host_name_is_refused_by_the_address_it_resolves_to(receiver: Receiver) -> None:
    channel = AppriseChannel(seconds=20)
    channel.new_sandbox = lambda: PluginSandbox(lambda host: host == "127.0.0.2")
    with pytest.raises(Undeliverable, match=r"it resolves to 127\.0\.0\.1, which is not a public address"):
        await channel.send(message(f"json://localhost:{receiver.server.server_port}/"))
    assert receiver.posted == []
    await channel.close()


@pytest.mark.parametrize("scheme", ["syslog", "dbus", "kde", "gnome", "glib", "macosx", "windows", "blink1"])
async def test_local_desktop_and_log_services_are_refused(scheme: str, channel: AppriseChannel) -> None:
    with pytest.raises(InvalidArgument, match=f"{scheme}://...: it notifies the desktop or system log"):
        validate_address(f"{scheme}://", allow_private=True)
    with pytest.raises(Undeliverable, match="it notifies the desktop or system log"):
        await channel.send(message(f"{scheme}://"))


def test_sandboxed_code_reads_no_file_and_starts_no_program(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("word")
    with sandboxed(create_sandbox(True)) as sandbox:
        with pytest.raises(PermissionError, match="local file"):
            secret.read_text()
        with pytest.raises(PermissionError):
            Path("/usr/../etc/passwd").read_text()
        with pytest.raises(PermissionError, match="start a program"):
            subprocess.run(["true"])
        with pytest.raises(PermissionError, match="start a program"):
            os.posix_spawn("/bin/true", ["true"], {})
        assert sandbox.refusal
    assert secret.read_text() == "word"  # and other processes are not limited


# What is kept ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "kept"),
    [
        ("ntfys://ntfy.sh/topic", "ntfys://ntfy.sh/topic"),
        ("MailTos://u:p@gmail.com", "mailtos://u:p@gmail.com"),
        ("json://example.com/hook", "json://example.com/hook"),
    ],
)
def test_valid_apprise_url_is_accepted(address: str, kept: str) -> None:
    assert validate_address(address) == kept


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("nonsense://hunter2", "nonsense://...: Apprise does not know"),
        ("slack://hunter2", "slack://...: Apprise does not know this service, or a part of the URL is missing"),
        ("hunter2", "invalid Apprise URL"),
        ("json://host/hunter2 x", "invalid Apprise URL"),
        ("json://host/hunter2å", "invalid Apprise URL"),
        ("json://host/hunter2" + "x" * 2048, "at most 2048"),
        ("json://u:hunter2@127.0.0.1/", r"json://...: 127.0.0.1 is not a public address; DULY_WEBHOOK_ALLOW_PRIVATE"),
        ("json://u:hunter2@localhost/", "localhost is not a public address"),
        ("json://u:hunter2@[::1]/", "is not a public address"),
        ("fcm://hunter2/device?keyfile=/etc/passwd", "fcm://...: it names a local file"),
    ],
)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # half-made attachments of apprise
def test_invalid_apprise_url_is_refused_without_being_shown(address: str, words: str, logged: StringIO) -> None:
    with pytest.raises(InvalidArgument, match=words) as refusal:
        validate_address(address)
    assert "hunter2" not in str(refusal.value)
    assert "hunter2" not in logged.getvalue()


async def test_apprise_url_in_use_is_not_logged_even_at_debug_level(
    channel: AppriseChannel, receiver: Receiver
) -> None:
    receiver.answer = lambda _: Answer(200, (("nonsense", "\r\nthis is no header, and a library says so\r\n"),))
    with capture_log_lines("debug") as lines:
        await channel.send(message(at(receiver, "json", "hunter2")))
    assert len(receiver.posted) == 1
    assert "hunter2" not in lines.getvalue()


def test_user_representation_does_not_contain_the_apprise_url() -> None:
    assert "hunter2" not in repr(Contact("anna", apprise_url="json://hunter2"))


# With the sender ------------------------------------------------------------------------------------------------------


async def test_sender_delivers_messages_by_apprise(
    messages: MessageActions, dsn: str, receiver: Receiver, channel: AppriseChannel
) -> None:
    for uid in ("anna", "bo", "cy"):
        messages.add_user(uid)
    query = "insert into duly.apprise_addresses (person_id, url) select id, %s from duly.person where uid = %s"
    messages.admin.execute(query, [at(receiver, "json", "hunter2"), "anna"])
    messages.admin.execute(query, ["nonsense://hunter2", "cy"])
    messages.create("först", "sedan", channel="apprise")
    messages.create("without an address", to="bo", channel="apprise")
    messages.create("nowhere", to="cy", channel="apprise")
    receiver.answer = lambda _: Answer(503) if len(receiver.posted) < 2 else Answer(200)
    async with working(dsn, send_work(channel)):
        await messages.until(lambda: messages.columns("status") == ["sent", "sent", "failed", "failed"])
    assert [json.loads(each.body)["message"] for each in receiver.posted] == ["först", "först", "sedan"]
    assert messages.columns("receipt", "starts") == [("json", 2), ("json", 1), (None, 1), (None, 1)]
    assert "hunter2" not in str(messages.columns("receipt", "last_error", "payload"))
