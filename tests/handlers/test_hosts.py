"""URLs and rules in one form; what matches, and what only looks as if it did."""

from __future__ import annotations

import pytest

from queueapp.handlers.hosts import LONGEST_URL, Target, host_name, is_allowed, parse, rules


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("http://example.com", Target("http", "example.com", 80, "/")),
        ("HTTPS://EXAMPLE.com.:8443/a?b=c#d", Target("https", "example.com", 8443, "/a?b=c")),
        ("https://example.com?x=1", Target("https", "example.com", 443, "/?x=1")),
        ("http://[::1]:81/", Target("http", "::1", 81, "/")),
        ("http://[0:0::1]/", Target("http", "::1", 80, "/")),
        (
            "http://bücher.example/ü?ü",
            Target("http", "xn--bcher-kva.example", 80, "/%C3%BC?%C3%BC"),
        ),
        ("http://ｅxample。com/", Target("http", "example.com", 80, "/")),
        ("http://example.com/a%2Fb", Target("http", "example.com", 80, "/a%2Fb")),
        ("http://example.com:/", Target("http", "example.com", 80, "/")),
    ],
)
def test_a_url_is_read_into_one_form(url: str, target: Target) -> None:
    assert parse(url) == target


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.com",
        "//example.com/",
        "ftp://example.com/",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "http://",
        "http:///path",
        "http://user@example.com/",
        "http://user:secret@example.com/",
        "http://@example.com/",
        "http://example.com:0/",
        "http://example.com:65536/",
        "http://example.com:x/",
        "http://exa mple.com/",
        "http://example.com/\r\nX: y",
        "http://example.com\\@evil.test/",
        "http://example.com\t/",
        "http://exam%70le.com/",
        "http://[::1/",
        "http://[fe80::1%25eth0]/",
        "http://-x.example/",
        "http://a..b/",
        "http://" + "a" * 64 + ".example/",
        "http://" + "a." * 130 + "example/",
        "http://example.com/" + "a" * LONGEST_URL,
        "http://example.com/\ud800",
    ],
)
def test_an_unusable_url_is_refused_without_being_said_back(url: str) -> None:
    with pytest.raises(ValueError) as refusal:  # noqa: PT011
        parse(url)
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize(
    ("rule", "url"),
    [
        ("example.com", "https://example.com/x"),
        ("EXAMPLE.com.", "http://example.com:8080/"),
        ("bücher.example", "http://xn--bcher-kva.example/"),
        ("example.com:8080", "http://example.com:8080/"),
        ("example.com:443", "https://example.com/"),
        ("*.example.com", "http://a.b.example.com/"),
        ("*.example.com:81", "http://a.example.com:81/"),
        ("127.0.0.1", "http://127.0.0.1:5000/"),
        ("[::1]:81", "http://[0::1]:81/"),
        ("[::1]", "http://[::1]/"),
    ],
)
def test_these_are_allowed(rule: str, url: str) -> None:
    assert is_allowed(parse(url), rules((rule,)))


@pytest.mark.parametrize(
    ("rule", "url"),
    [
        ("example.com", "http://www.example.com/"),
        ("example.com", "http://example.com.evil.test/"),
        ("example.com", "http://notexample.com/"),
        ("example.com:8080", "http://example.com/"),
        ("*.example.com", "http://example.com/"),
        ("*.example.com", "http://evilexample.com/"),
        ("*.example.com:81", "http://a.example.com/"),
        ("127.0.0.1", "http://127.1/"),
        ("127.0.0.1", "http://2130706433/"),
        ("127.0.0.1", "http://localhost/"),
    ],
)
def test_these_only_look_as_if(rule: str, url: str) -> None:
    assert not is_allowed(parse(url), rules((rule,)))


def test_without_rules_nothing_is_allowed() -> None:
    assert not is_allowed(parse("http://example.com/"), rules(()))


def test_authority_and_url_are_as_a_person_writes_them() -> None:
    assert parse("http://[::1]:81/a?b").url == "http://[::1]:81/a?b"
    assert parse("https://example.com:443").authority == "example.com"


def test_an_underscore_is_no_reason_to_refuse_a_name() -> None:
    assert host_name("my_service") == "my_service"
