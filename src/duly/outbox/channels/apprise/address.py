"""Apprise URLs of users: validation, and opening the plugin that a URL names.

A URL holds credentials: errors name its service and nothing else.
"""

import logging
import mimetypes
import re
import threading
import warnings
from functools import cache
from typing import TYPE_CHECKING

from duly import extras
from duly.errors import InvalidArgument
from duly.outbox.channels.apprise.responses import limit_responses
from duly.outbox.channels.apprise.sandbox import LOCAL_FILE_REFUSED, PluginSandbox, is_ip_address, sandboxed
from duly.outbox.channels.public_addresses import is_public

if TYPE_CHECKING:
    from apprise import AppriseAsset, NotifyBase

MAX_URL_LENGTH = 2048
ADDRESS_PATTERN = re.compile(r"([A-Za-z][A-Za-z0-9_+.-]{0,31})://[!-~]*")
LOCAL_SERVICES = frozenset({"blink1", "dbus", "gio", "glib", "gnome", "kde", "macosx", "qt", "syslog", "windows"})
UNKNOWN_SERVICE = "Apprise does not know this service, or a part of the URL is missing"
load_lock = threading.Lock()


def validate_address(address: str, *, allow_private: bool = False) -> str:
    """Return the URL to store; raises InvalidArgument. What its host resolves to is checked at every send."""
    found = ADDRESS_PATTERN.fullmatch(address)
    if not found or len(address) > MAX_URL_LENGTH:
        raise InvalidArgument(
            f"invalid Apprise URL: write a service and its credentials, as in ntfys://host/topic, "
            f"in at most {MAX_URL_LENGTH} visible ASCII characters, with any other character percent-encoded"
        )
    service = found[1].lower()
    address = service + address[len(service) :]
    sandbox = create_sandbox(allow_private)
    plugin = open_service(address, sandbox)
    if plugin is None:
        reason = sandbox.refusal or sandbox.file_refusal or UNKNOWN_SERVICE
        raise InvalidArgument(f"{service}://...: {reason}; services and their URLs: https://appriseit.com/services")
    host = str(getattr(plugin, "host", "") or "")
    if not allow_private and is_private_host(host):
        raise InvalidArgument(
            f"{service}://...: {host} is not a public address; DULY_WEBHOOK_ALLOW_PRIVATE=true allows it"
        )
    return address


def service_name(address: str) -> str:
    """Return the scheme, the only part of a URL that is not secret."""
    return address.partition("://")[0]


def create_sandbox(allow_private: bool) -> PluginSandbox:
    """Return a sandbox that reaches public addresses, or all."""
    return PluginSandbox((lambda _: True) if allow_private else is_public)


def open_service(address: str, sandbox: PluginSandbox) -> "NotifyBase | None":
    """Return the plugin of a URL, without retries and redirects; None when it is unknown or refused."""
    if service_name(address) in LOCAL_SERVICES:
        sandbox.refusal = "it notifies the desktop or system log of the machine that runs the worker"
        return None
    asset = load_apprise()
    from apprise import Apprise, AppriseAttachment

    with sandboxed(sandbox):
        plugin = Apprise.instantiate(address, asset=asset)  # pyright: ignore[reportUnknownMemberType]
    if plugin is None or plugin.category != "native":
        return None
    if any(isinstance(each, AppriseAttachment) and len(each) for each in vars(plugin).values()):
        sandbox.file_refusal = LOCAL_FILE_REFUSED  # the plugin would open it when it sends
        return None
    plugin.redirects = False
    plugin.optional = False  # it would report a failure as success
    plugin.retry = 0
    return plugin


def load_apprise() -> "AppriseAsset":
    """Import Apprise with all its plugins, once per process; return their options."""
    with load_lock:
        return apprise_asset()


@cache
def apprise_asset() -> "AppriseAsset":
    """Return the options of every plugin: no files, no generated keys, no images, no redirects, no limits but ours."""
    extras.require("apprise")
    mimetypes.init()  # reads local files, which the sandbox would refuse later
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some plugins import deprecated modules
        from apprise import AppriseAsset
        from apprise.manager_plugins import NotificationManager

        NotificationManager().load_modules()  # pyright: ignore[reportUnknownMemberType]
    limit_responses()
    logger = logging.getLogger("apprise")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False  # its lines are part of the result, and may hold secrets
    return AppriseAsset(
        app_id="duly",
        app_desc="duly",
        app_url="",
        image_url_mask="",
        image_url_logo="",
        image_path_mask="",
        async_mode=False,
        http_redirects=False,
        interpret_emojis=False,
        pgp_autogen=False,
        pem_autogen=False,
        secure_logging=True,
        storage_mode="memory",
        service_timeout=0,
        allow_templates=False,
        language="en",
        timezone="UTC",
    )


def is_private_host(host: str) -> bool:
    """Return whether a host is private by its name or its literal address."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    bare = host.strip("[]")
    return is_ip_address(bare) and not is_public(bare)
