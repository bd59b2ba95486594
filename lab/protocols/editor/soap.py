"""SOAP 1.1 envelopes of the one operation NumberToWords, and its description. Must not know HTTP, nor any spelling."""

from __future__ import annotations

from html import escape
from pathlib import Path
from xml.etree import ElementTree

ENVELOPE = "http://schemas.xmlsoap.org/soap/envelope/"
NAMESPACE = "urn:brokerlab:words"
ACTION = f"{NAMESPACE}#NumberToWords"
WSDL = Path(__file__).with_name("words.wsdl").read_text(encoding="utf-8")
_HEAD = '<?xml version="1.0" encoding="utf-8"?>\n'


class BadSoap(ValueError):
    """Not an envelope with what was expected in it."""


def request(number: str) -> bytes:
    return _envelope(f'<NumberToWords xmlns="{NAMESPACE}"><number>{escape(number)}</number></NumberToWords>')


def answer(words: str) -> bytes:
    inside = f"<words>{escape(words)}</words>"
    return _envelope(f'<NumberToWordsResponse xmlns="{NAMESPACE}">{inside}</NumberToWordsResponse>')


def fault(code: str, reason: str) -> bytes:
    """`code`: Client or Server, whoever is to blame."""
    inside = f"<faultcode>soap:{code}</faultcode><faultstring>{escape(reason)}</faultstring>"
    return _envelope(f"<soap:Fault>{inside}</soap:Fault>")


def read_request(body: bytes) -> str:
    return _read(body, "NumberToWords", "number")


def read_answer(body: bytes) -> str:
    return _read(body, "NumberToWordsResponse", "words")


def _envelope(inside: str) -> bytes:
    return f'{_HEAD}<soap:Envelope xmlns:soap="{ENVELOPE}"><soap:Body>{inside}</soap:Body></soap:Envelope>'.encode()


def _read(body: bytes, element: str, field: str) -> str:
    if b"<!" in body:  # a document type could define what grows without end
        raise BadSoap("declarations are not allowed")
    try:
        root = ElementTree.fromstring(body)
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise BadSoap(f"not XML: {error}") from None
    if root.tag != f"{{{ENVELOPE}}}Envelope":
        raise BadSoap("not a SOAP envelope")
    found = root.find(f"{{{ENVELOPE}}}Body/{{{NAMESPACE}}}{element}/{{{NAMESPACE}}}{field}")
    if found is None or len(found):
        raise BadSoap(f"no {element} with a {field}")
    return found.text or ""
