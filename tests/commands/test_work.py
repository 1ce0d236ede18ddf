"""On what terms ``flask work`` starts."""

from __future__ import annotations

from datetime import timedelta

import pytest
from flask.testing import FlaskCliRunner

from queueapp import config
from queueapp.commands.keeping import keep_of
from queueapp.commands.work import terms_of
from queueapp.errors import SettingError


def test_options_win_over_settings() -> None:
    settings = config.load({"QUEUE_LEASE": "30s", "QUEUE_CONCURRENCY": "3"})

    terms = terms_of(settings, lease=90.0, concurrency=None, drain=False)

    assert (terms.lease, terms.concurrency) == (90.0, 3)


@pytest.mark.parametrize("lease", ["inf", "nan", "0", "2d", "-1"])
def test_a_lease_that_no_worker_should_have_is_refused(runner: FlaskCliRunner, lease: str) -> None:
    result = runner.invoke(args=["work", "--lease", lease])

    assert result.exit_code != 0
    assert "lease" in result.output


@pytest.mark.parametrize("lease", ["0", "1ms", "2d", "never"])
def test_so_is_such_a_setting(lease: str) -> None:
    with pytest.raises(SettingError, match="QUEUE_LEASE"):
        config.load({"QUEUE_LEASE": lease})


def test_webhooks_are_left_to_workers_that_may_send() -> None:
    closed = terms_of(config.load({}))
    opened = terms_of(config.load({"QUEUE_HTTP_ALLOWED_HOSTS": "api.example.com"}))

    assert closed.skip == ("http.request",)
    assert opened.skip == ()


def test_without_threads_nobody_listens() -> None:
    settings = config.load({})

    assert terms_of(settings, concurrency=1).listen
    assert not terms_of(settings, concurrency=0).listen


def test_drain_needs_threads(runner: FlaskCliRunner) -> None:
    result = runner.invoke(args=["work", "--drain", "--concurrency", "0"])

    assert result.exit_code == 2
    assert "--drain needs threads" in result.output


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--lease", "0.5", "'0.5': expected 1s to 1d"),
        ("--lease", "2d", "'2d': expected 1s to 1d"),
        ("--lease", "soon", "'soon': expected a duration"),
        ("--grace", "-1", "'-1': expected a duration"),
        ("--processes", "0", "0 is not in the range 1<=x<=64"),
        ("--concurrency", "501", "501 is not in the range 0<=x<=500"),
        ("--prefetch", "many", "'many' is not a valid integer"),
        ("--max-rss", "half", "'half': expected a size"),
        ("--kinds", "no.such", "no handler for no.such"),
    ],
)
def test_a_bad_option_is_wrong_usage_and_names_value_and_bound(
    runner: FlaskCliRunner, option: str, value: str, said: str
) -> None:
    result = runner.invoke(args=["work", option, value])

    assert result.exit_code == 2
    assert option in result.output
    assert said in result.output


def test_retention_is_configured_in_days() -> None:
    keep = keep_of(config.load({"QUEUE_KEEP_SUCCEEDED": "1d", "QUEUE_IDEMPOTENCY_DAYS": "2"}))

    assert (keep.succeeded, keep.failed) == (timedelta(days=1), timedelta(days=90))
    assert keep.keyed == timedelta(days=2)


def test_a_kind_that_cannot_be_one_is_named() -> None:
    with pytest.raises(SettingError, match="Bad"):
        config.load({"QUEUE_EXTERNAL_KINDS": "Bad Kind"})
