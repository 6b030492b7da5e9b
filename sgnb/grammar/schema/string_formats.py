"""String formats of JSON Schema as patterns. Knows only patterns.

Every match has the format. Every text of the format matches, except for the limits in `note`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from ..regex.parser import parse
from ..syntax import Node

_LEAP = r"(?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
_YEAR = r"(?:[1-9]\d{3}|0(?:[1-9]\d\d|0(?:[1-9]\d|0[1-9])))"
_DATE = (
    rf"(?:{_YEAR}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)"
    rf"|02-(?:0[1-9]|1\d|2[0-8]))|{_LEAP}-02-29)"
)
_TIME = r"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)"
_DAY_PART = r"T(?:\d{1,4}H(?:\d{1,4}M(?:\d{1,4}S)?)?|\d{1,4}M(?:\d{1,4}S)?|\d{1,4}S)"
_DAYS = rf"\d{{1,4}}D(?:{_DAY_PART})?"
_MONTHS = rf"\d{{1,4}}M(?:{_DAYS}|{_DAY_PART})?"
_DURATION = rf"P(?:\d{{1,4}}Y(?:{_MONTHS}|{_DAY_PART})?|{_MONTHS}|{_DAYS}|{_DAY_PART}|\d{{1,4}}W)"

_LABEL = r"[A-Za-z\d](?:[A-Za-z\d-]{0,60}[A-Za-z\d])?"
_SHORT_LABEL = r"[A-Za-z\d]+(?:-[A-Za-z\d]+)*"
_DOMAIN = rf"(?:{_SHORT_LABEL}\.)+[A-Za-z]{{2,24}}"
_ATOM = r"[A-Za-z\d!#$%&'*+/=?^_`{|}~-]+"
_EMAIL = rf"{_ATOM}(?:\.{_ATOM})*@{_DOMAIN}"

_BYTE = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_IPV4 = rf"{_BYTE}(?:\.{_BYTE}){{3}}"
_HEX = r"[\da-fA-F]{1,4}"
_IPV6 = "|".join(
    [
        rf"(?:{_HEX}:){{7}}{_HEX}",
        *(rf"(?:{_HEX}:){{{n}}}(?::{_HEX}){{1,{7 - n}}}" for n in range(1, 7)),
        rf"(?:{_HEX}:){{1,7}}:",
        rf":(?::{_HEX}){{1,7}}",
        "::",
    ]
)
_UUID = r"[\da-fA-F]{8}-[\da-fA-F]{4}-%s[\da-fA-F]{3}-%s[\da-fA-F]{3}-[\da-fA-F]{12}"

_PLAIN = r"[A-Za-z\d._~!$&'()*+,;=-]|%[\da-fA-F]{2}"
_USER = rf"(?:(?:{_PLAIN}|:)*@)?"
_NAMED = rf"{_SHORT_LABEL}(?:\.{_SHORT_LABEL})*"
_REST = rf"(?:/(?:{_PLAIN}|[:@])*)*(?:\?(?:{_PLAIN}|[:@/?])*)?(?:#(?:{_PLAIN}|[:@/?])*)?"
_AUTHORITY = rf"//{_USER}{_NAMED}(?::\d{{1,5}})?"
_ROOTLESS = rf"/?(?:{_PLAIN}|[:@])+"
_URI = rf"[A-Za-z][A-Za-z\d+.-]*:(?:{_AUTHORITY}|{_ROOTLESS}){_REST}"
_PATHS = rf"/(?:(?:{_PLAIN}|[:@])+{_REST})?|(?:{_PLAIN}|@)+{_REST}"
_RELATIVE = rf"(?:{_AUTHORITY}{_REST}|{_PATHS}|[?#](?:{_PLAIN}|[:@/?])*)"
_VARIABLE = r"\w+(?:\.\w+)*(?::[1-9]\d{0,2}|\*)?"
_TEMPLATE = (
    rf"(?:[A-Za-z\d._~:/?#@!$&()*+,;=-]|%[\da-fA-F]{{2}}"
    rf"|\{{[+#./;?&]?{_VARIABLE}(?:,{_VARIABLE})*\}})*"
)
_ATOM_OF_REGEX = (
    r"(?:[A-Za-z\d _,:;=!@#%&<>'~/.-]|\\[dDwWsStnrfv.*+?^$|()\[\]{}\\/]"
    r"|\[\^?(?:a-z|A-Z|0-9|[A-Za-z\d_ ,.:;=!@#%&<>'~/]|\\[dDwWsS])+\])"
)
_COUNT = r"(?:(?:[*+?]|\{\d{1,2},?\})\??)?"
_ATOMS = rf"(?:{_ATOM_OF_REGEX}{_COUNT}|\|)*"
_REGEX = rf"\^?(?:{_ATOM_OF_REGEX}{_COUNT}|\||\((?:\?:)?{_ATOMS}\){_COUNT})*\$?"
_BASE64 = r"(?:[A-Za-z\d+/]{4})*(?:[A-Za-z\d+/]{2}==|[A-Za-z\d+/]{3}=)?"
_POINTER = r"(?:/(?:[^/~]|~[01])*)*"


@dataclass(frozen=True, slots=True)
class Format:
    """Pattern of a format, and a note for the documentation."""

    pattern: str | None  # syntax of `re`, for the whole text; None for any text
    note: str = ""


ANY_TEXT_NOTE = "any text"

FORMATS: dict[str, Format] = {
    "date": Format(_DATE, "years 0001 to 9999; 29 February only in leap years"),
    "time": Format(_TIME, "RFC 3339 with a time zone; no leap seconds; at most 9 decimals"),
    "date-time": Format(f"{_DATE}T{_TIME}", "like date and time, with a capital T and Z"),
    "duration": Format(_DURATION, "ISO 8601 without fractions, at most 4 digits per part"),
    "email": Format(_EMAIL, "no quoted names, no addresses in brackets"),
    "idn-email": Format(_EMAIL, "like email: ASCII"),
    "hostname": Format(
        rf"(?!(?:.*\.)?..--){_LABEL}(?:\.{_LABEL}){{0,3}}",
        "at most 4 labels of at most 62 characters, none in punycode",
    ),
    "idn-hostname": Format(r"[a-z\d]{1,62}(?:\.[a-z\d]{1,62}){0,3}", "ASCII without hyphens"),
    "ipv4": Format(_IPV4),
    "ipv6": Format(_IPV6, "without an IPv4 address at the end and without a zone"),
    "uri": Format(_URI, "a host or a path after the scheme, no address in brackets"),
    "uri-reference": Format(f"{_URI}|{_RELATIVE}", "not empty"),
    "iri": Format(_URI, "like uri: ASCII"),
    "iri-reference": Format(f"{_URI}|{_RELATIVE}", "like uri-reference: ASCII, not empty"),
    "uri-template": Format(_TEMPLATE, "variables of ASCII letters, digits and _"),
    "regex": Format(_REGEX, "ASCII; groups one level deep, classes of few ranges, no look-around"),
    "uuid": Format(_UUID % (r"[\da-fA-F]", r"[\da-fA-F]")),
    **{f"uuid{version}": Format(_UUID % (str(version), "[89abAB]")) for version in range(1, 9)},
    "json-pointer": Format(_POINTER),
    "relative-json-pointer": Format(rf"\d(?:#|{_POINTER})", "one digit"),
    "byte": Format(_BASE64, "base64"),
    "base64": Format(_BASE64),
    "base64url": Format(r"(?:[\w-]{4})*(?:[\w-]{2}(?:==)?|[\w-]{3}=?)?", "padded or not"),
    "ipv4network": Format(
        rf"{_BYTE}\.0\.0\.0/8|{_BYTE}\.{_BYTE}\.0\.0/16|{_BYTE}(?:\.{_BYTE}){{2}}\.0/24|{_IPV4}/32",
        "/8, /16, /24, /32",
    ),
    "ipv4interface": Format(rf"{_IPV4}/(?:[12]?\d|3[0-2])"),
    "ipv6interface": Format(rf"(?:{_IPV6})/(?:[1-9]?\d|1[01]\d|12[0-8])"),
    "ipvanyaddress": Format(f"{_IPV4}|{_IPV6}"),
    "decimal": Format(r"-?(?:0|[1-9]\d{0,17})(?:\.\d{1,10})?"),
    "color": Format(r"#[\da-fA-F]{6}", "#rrggbb"),
    "path": Format(r"[^\0]+", "not empty, without NUL"),
    "file-path": Format(r"[^\0]+", "like path; existence is not checked"),
    "directory-path": Format(r"[^\0]+", "like path; existence is not checked"),
    "password": Format(None, ANY_TEXT_NOTE),
    "binary": Format(None, ANY_TEXT_NOTE),
    "string": Format(None, ANY_TEXT_NOTE),
    "textarea": Format(None, ANY_TEXT_NOTE),
}

ENCODINGS = ("base64", "base64url")
"""Values of contentEncoding, enforced like the formats of the same names."""

NUMBER_FORMATS: dict[str, tuple[int, int] | None] = {
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint32": (0, 2**32 - 1),
    "uint64": (0, 2**64 - 1),
    "float": None,
    "double": None,
}
"""Formats of numbers: range of the integers, or None without a restriction."""


@cache
def format_tree(name: str) -> Node | None:
    """Return the tree of the texts of a format; None for any text.

    Args:
        name: key of FORMATS.
    """
    pattern = FORMATS[name].pattern
    return None if pattern is None else parse(pattern, portable=True)


def has_format(name: str, text: str) -> bool:
    """Return True if `text` matches a format.

    Args:
        name: key of FORMATS.
        text: text to match.
    """
    pattern = FORMATS[name].pattern
    return pattern is None or re.fullmatch(pattern, text, re.ASCII) is not None
