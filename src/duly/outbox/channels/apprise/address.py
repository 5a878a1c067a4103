"""A person's address for apprise: one line that names a service, and holds what opens it.

It is a secret: whatever is said about one names the service and nothing else.
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
from duly.outbox.channels.apprise.answers import bound_answers
from duly.outbox.channels.apprise.sandbox import A_FILE, Leash, is_address, leashed
from duly.outbox.channels.webhook.addresses import is_public

if TYPE_CHECKING:
    from apprise import AppriseAsset, NotifyBase

__all__ = ["checked_address", "leash_of", "open_service", "service_of"]

MAX_LENGTH = 2048
WRITTEN = re.compile(r"([A-Za-z][A-Za-z0-9_+.-]{0,31})://[!-~]*")
OF_THIS_MACHINE = frozenset({"blink1", "dbus", "gio", "glib", "gnome", "kde", "macosx", "qt", "syslog", "windows"})
one_at_a_time = threading.Lock()


def checked_address(address: str, *, allow_private: bool = False) -> str:
    """The address as it is kept, or a refusal that names its service. Where names lead is seen when it is used."""
    found = WRITTEN.fullmatch(address)
    if not found or len(address) > MAX_LENGTH:
        raise InvalidArgument(
            f"an address for apprise is a service and what opens it, as in ntfys://host/topic, of at most {MAX_LENGTH} "
            "characters, with everything but visible ASCII written as %..; this one is not"
        )
    service = found[1].lower()
    address = service + address[len(service) :]
    leash = leash_of(allow_private)
    plugin = open_service(address, leash)
    if plugin is None:
        why = leash.refused or leash.file or "apprise does not know this service, or lacks something in the address"
        raise InvalidArgument(
            f"{service}://...: {why}; services and how they are written: https://appriseit.com/services"
        )
    host = str(getattr(plugin, "host", "") or "")
    if not allow_private and is_inside(host):
        raise InvalidArgument(
            f"{service}://...: {host} is not a public address; DULY_WEBHOOK_ALLOW_PRIVATE=true lets messages go there"
        )
    return address


def service_of(address: str) -> str:
    """What may be said of an address."""
    return address.partition("://")[0]


def leash_of(allow_private: bool) -> Leash:
    """What whoever sends may reach."""
    return Leash((lambda _: True) if allow_private else is_public)


def open_service(address: str, leash: Leash) -> "NotifyBase | None":
    """The plugin that an address names, told to try once and to follow nobody; None when there is none for us."""
    if service_of(address) in OF_THIS_MACHINE:
        leash.refused = "it speaks to whoever sits at the machine that sends"
        return None
    manners = load_apprise()
    from apprise import Apprise, AppriseAttachment

    with leashed(leash):
        plugin = Apprise.instantiate(address, asset=manners)  # pyright: ignore[reportUnknownMemberType]
    if plugin is None or plugin.category != "native":
        return None
    if any(isinstance(each, AppriseAttachment) and len(each) for each in vars(plugin).values()):
        leash.file = A_FILE  # which it would open when it sends
        return None
    plugin.redirects = False
    plugin.optional = False  # which would call a failure a success
    plugin.retry = 0
    return plugin


def load_apprise() -> "AppriseAsset":
    """Load it with all its plugins, once, and say how they behave."""
    with one_at_a_time:
        return manners()


@cache
def manners() -> "AppriseAsset":
    """How every plugin behaves: no files, no keys of its own making, no pictures, no redirects, no limits but ours."""
    extras.require("apprise")
    mimetypes.init()  # which reads files of this machine, and would do so on a leash
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some plugins import what will leave Python one day
        from apprise import AppriseAsset
        from apprise.manager_plugins import NotificationManager

        NotificationManager().load_modules()  # pyright: ignore[reportUnknownMemberType]
    bound_answers()
    quiet = logging.getLogger("apprise")
    quiet.addHandler(logging.NullHandler())
    quiet.propagate = False  # what it says comes back with the result
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


def is_inside(host: str) -> bool:
    """Does a host say by itself that it is not public?"""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    bare = host.strip("[]")
    return is_address(bare) and not is_public(bare)
