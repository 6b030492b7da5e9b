"""Downloads for `fetch=True`: public addresses only, no redirects, with limits of size and time.

The connection goes to the address that was checked, so a second answer of the name server has no
effect. Proxies of the environment are not used.
"""

from __future__ import annotations

import http.client
import ipaddress
import re
import socket
import ssl
import threading
from contextlib import closing, suppress
from urllib.parse import SplitResult, urlsplit

from ..errors import MediaError, shown
from .file_limits import MAX_DOWNLOAD

SECONDS = 30.0
"""Time limit of a download."""

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


def download(url: str) -> bytes:
    """Return the content of an http or https URL.

    Raises:
        MediaError: The host is not public, or the answer is an error, a redirect, too large or too
            slow.
    """
    name = f"the URL {shown_url(url)}"
    parts, port = _split(name, url)
    assert parts.hostname is not None
    address = _public_address(name, parts.hostname, port)
    try:
        return _get(name, parts, port, address)
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = str(error) or type(error).__name__
        hint = "check the URL, or download the file and give its path"
        raise MediaError(f"{name} cannot be downloaded: {reason}", hint) from None


def shown_url(url: str) -> str:
    """Return a URL for a message, without user name and password."""
    return shown(re.sub(r"//[^/@]*@", "//", url))


def _split(name: str, url: str) -> tuple[SplitResult, int]:
    hint = "give a URL such as https://example.org/chart.png"
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError as error:
        raise MediaError(f"{name} is not valid: {error}", hint) from None
    if not parts.hostname or parts.username is not None or not url.isascii() or " " in url:
        reason = "has a user name" if parts.username is not None else "is not valid"
        raise MediaError(f"{name} {reason}", hint)
    return parts, port


def _public_address(name: str, host: str, port: int) -> Address:
    """Return the first address of the host. Raises MediaError unless all addresses are public."""
    try:
        answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise MediaError(f"{name} has an unknown host: {error}", "check the host name") from None
    addresses = [ipaddress.ip_address(str(answer[4][0]).partition("%")[0]) for answer in answers]
    for address in addresses:
        if not is_public(address):
            raise MediaError(
                f"{name} has the address {address}, which is not public",
                "download the file and give its path or its bytes",
            )
    return addresses[0]


def is_public(address: Address) -> bool:
    """Return whether an address, and any IPv4 address inside, is on the public internet."""
    inner: list[Address | None] = [address]
    if isinstance(address, ipaddress.IPv6Address):
        inner += [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
        if address in _NAT64:
            inner.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
        if address.ipv4_mapped is not None:
            inner.remove(address)  # not global as an IPv6 address
    return all(a is None or (a.is_global and not a.is_multicast) for a in inner)


def _get(name: str, parts: SplitResult, port: int, address: Address) -> bytes:
    streams = [socket.create_connection((str(address), port), timeout=SECONDS)]
    expired = threading.Event()
    # Ends headers and bodies that drip.
    alarm = threading.Timer(SECONDS, _shut, [streams, expired])
    alarm.daemon = True
    alarm.start()

    try:
        if parts.scheme == "https":
            context = ssl.create_default_context()
            stream = context.wrap_socket(
                streams[0], server_hostname=parts.hostname, do_handshake_on_connect=False
            )
            streams.append(stream)
            stream.do_handshake()
        connection = http.client.HTTPConnection(parts.netloc)
        connection.sock = streams[-1]
        with closing(connection):
            target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            headers = {"Accept-Encoding": "identity", "User-Agent": "sgnb"}
            connection.request("GET", target, headers=headers)
            data = _body(name, connection.getresponse())
        if not expired.is_set():
            return data
    except MediaError:
        if not expired.is_set():  # otherwise the answer was cut
            raise
    finally:
        alarm.cancel()
        streams[-1].close()
    raise TimeoutError(f"it took longer than {SECONDS:g} s")


def _shut(streams: list[socket.socket], expired: threading.Event) -> None:
    expired.set()  # first: the reader wakes up at once
    with suppress(OSError):
        streams[-1].shutdown(socket.SHUT_RDWR)


def _body(name: str, response: http.client.HTTPResponse) -> bytes:
    if 300 <= response.status < 400:
        target = shown_url(response.getheader("Location", ""))
        raise MediaError(f"{name} redirects to {target}", "give the final URL")

    if response.status != 200:
        reason = f"{response.status} {response.reason}"
        raise MediaError(f"{name} answered {reason}", "check the URL in a browser")
    encoding = response.getheader("Content-Encoding", "identity").lower()
    if encoding != "identity":
        hint = "download the file and give its path"
        raise MediaError(f"{name} answered with the encoding {shown(encoding)}", hint)
    data = b"" if (response.length or 0) > MAX_DOWNLOAD else response.read(MAX_DOWNLOAD + 1)

    if len(data) > MAX_DOWNLOAD or (response.length or 0) > MAX_DOWNLOAD:
        hint = "download the file and give its path"
        raise MediaError(f"{name} has more than {MAX_DOWNLOAD / 1e6:g} MB", hint)
    if not data:
        raise MediaError(f"{name} answered with no content", "check the URL in a browser")
    if response.length:
        raise MediaError(f"{name} ended before its end", "try again")
    return data
