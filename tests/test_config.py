# SPDX-License-Identifier: Apache-2.0
"""
URLs, arguments and the environment: one spelling, one order, and errors that say what to write.
"""

from __future__ import annotations

import socket

from pathlib import Path
from typing import Any

import orjson
import pytest

from structbatch import config
from structbatch.core.compress import Compression
from structbatch.core.record import HEADER_BYTES
from structbatch.core.settings import Settings
from structbatch.core.vendor import Limits
from structbatch.errors import ConfigError
from structbatch.transport.requests import FROM_ENVIRONMENT, RequestsTransport
from structbatch.vendors.datadog import Datadog
from structbatch.vendors.ndjson import Ndjson


URL = "ndjson+http://127.0.0.1:8080/ingest"
SECRET = "s3cr3t-t0ken"


def parse(url: str = URL, environ: dict[str, str] | None = None, **arguments: Any) -> config.Configuration:
    """
    `config.parse` with an environment of its own.
    """
    special = {name: arguments.pop(name) for name in ("token", "resource") if name in arguments}
    return config.parse(url, arguments, environ=environ or {}, **special)


def resource_of(made: config.Configuration) -> dict[str, object]:
    """
    The pipeline's own resource.
    """
    resource: dict[str, object] = orjson.loads(made.source)["resource"]
    return resource


class TestUrl:
    """
    What a URL says.
    """

    def test_vendor_and_address(self) -> None:
        """
        The part before the plus names the vendor, the rest is where requests go.
        """
        assert Ndjson("http://127.0.0.1:8080/ingest") == parse().vendor

    def test_a_vendor_may_know_its_own_host(self) -> None:
        """
        Options stand in the query.
        """
        made = parse("datadog://?site=datadoghq.eu&tags=a:b,c:d", token=SECRET)

        assert Datadog(site="datadoghq.eu", tags="a:b,c:d") == made.vendor

    def test_a_vendor_that_knows_its_host_may_get_another(self) -> None:
        """
        As the design spells it.
        """
        made = parse("datadog+https://http-intake.logs.datadoghq.eu", token=SECRET)

        assert Datadog(url="https://http-intake.logs.datadoghq.eu") == made.vendor

    def test_items_for_the_server_have_a_prefix(self) -> None:
        """
        They travel without it, ours do not travel at all.
        """
        made = parse(f"{URL}?query.tenant=a%26b&batch_max_records=7&query.timeout=&query.tenant=c")

        assert Ndjson("http://127.0.0.1:8080/ingest?tenant=a%26b&timeout=&tenant=c") == made.vendor
        assert 7 == made.settings.batch_max_records

    def test_the_scheme_has_no_case(self) -> None:
        """
        Schemes of URLs never have.
        """
        assert parse().vendor == parse(URL.replace("ndjson+http", "NDJSON+HTTP")).vendor

    @pytest.mark.parametrize(
        ("url", "message"),
        [
            ("", "that is no URL"),
            ("ndjson", "that is no URL"),
            ("ndjson+http://a b/", "that is no URL"),
            ("ndjson+http://a\n/", "that is no URL"),
            ("http://a/", r"does not say which vendor: write for instance ndjson\+http://"),
            ("ndjsom+http://a/", "'ndjsom' is no vendor; did you mean 'ndjson'"),
            ("ndjson+htps://a/", "'htps' is no protocol for a URL; did you mean 'https'"),
            ("ndjson://a/", r"write ndjson\+https://"),
            ("ndjson://", r"ndjson needs a host: write ndjson\+https://host/path"),
            ("ndjson+http:///path", "names no host"),
            ("ndjson+http://a:port/", "host or the port"),
            ("ndjson+http://a:99999/", "host or the port"),
            ("ndjson+http://[::1/", "host or the port"),
            ("ndjson+http://a/#b", "no fragment"),
            ("ndjson+http://a/?b", "no '='"),
            ("ndjson+http://a/?max_senders=1&max_senders=2", "max_senders stands twice"),
            ("ndjson+http://a/?batch_max_record=1", "did you mean 'batch_max_records'"),
            ("ndjson+http://a/?tenant=1", r"query\.tenant="),
            ("ndjson+http://a/?site=datadoghq.eu", "'site' is no setting"),
            ("ndjson+http://a/?batch_max_records=many", "batch_max_records='many' is not a whole number"),
            ("ndjson+http://a/?batch_max_records=0", "batch_max_records=0 is below 1"),
            ("datadog://?site=datadoghq.fr", "'datadoghq.fr' is no Datadog site; did you mean"),
            ("datadog://?query.a=b", "query.a needs a URL with a host"),
            ("datadog://host", r"write datadog\+https://"),
            ("datadog://?compression=zstd", "compression='zstd': datadog takes gzip, identity"),
        ],
    )
    def test_what_is_wrong_is_named_with_the_fix(self, url: str, message: str) -> None:
        """
        One sentence that says what to write instead.
        """
        with pytest.raises(ConfigError, match=message):
            parse(url, token=SECRET)

    @pytest.mark.parametrize(
        "url",
        [
            f"ndjson+http://user:{SECRET}@a/",
            f"ndjson+http://{SECRET}@a/",
            f"ndjson+http://a/?token={SECRET}",
            f"ndjson+http://a/?api_key={SECRET}",
            f"ndjson+http://a/?{SECRET}",
            f"ndjson+http://a/{SECRET}#x",
            f"ndjson+http://a:{SECRET}/",
            f"ndjson {SECRET}",
            f"ndjson+http://a/?proxy=ftp://u:{SECRET}@b",
        ],
    )
    def test_no_message_repeats_a_secret(self, url: str) -> None:
        """
        Wherever somebody put it.
        """
        with pytest.raises(ConfigError) as caught:
            parse(url)

        assert SECRET not in str(caught.value)

    def test_an_option_is_read_as_its_type(self) -> None:
        """
        Texts of a URL become what the vendor's field is.
        """
        made = parse("datadog://?source=ruby&record_id=on", token=SECRET)

        assert Datadog(source="ruby", record_id=True) == made.vendor
        with pytest.raises(ConfigError, match=r"tags=5 is not text|tags='5' is not text"):
            parse("datadog://", token=SECRET, tags=5)


class TestOrder:
    """
    Argument beats URL beats environment.
    """

    def test_of_settings(self) -> None:
        """
        The nearest to the code wins.
        """
        environ = {"STRUCTBATCH_BATCH_MAX_RECORDS": "1", "STRUCTBATCH_MAX_SENDERS": "1", "STRUCTBATCH_TIMEOUT": "1"}

        settings = parse(f"{URL}?batch_max_records=2&max_senders=2", environ, batch_max_records=3).settings

        assert (3, 2, 1.0) == (settings.batch_max_records, settings.max_senders, settings.timeout)

    def test_of_the_resource(self) -> None:
        """
        OpenTelemetry's variables are the weakest, an argument of its own the strongest.
        """
        environ = {
            "OTEL_RESOURCE_ATTRIBUTES": "service.name=otel,service.version=otel,host.name=otel,team=otel,x=otel",
            "OTEL_SERVICE_NAME": "name",
            "STRUCTBATCH_ENVIRONMENT": "ours",
            "STRUCTBATCH_VERSION": "ours",
            "STRUCTBATCH_HOST": "ours",
        }

        made = parse(f"{URL}?host=url", environ, resource={"team": "argument", "service.version": "map"}, version="own")

        expected = {
            "deployment.environment.name": "ours",
            "host.name": "url",
            "service.name": "name",
            "service.version": "own",
            "team": "argument",
            "x": "otel",
        }
        assert expected == resource_of(made)

    def test_of_tokens(self) -> None:
        """
        An argument is asked before the environment.
        """
        environ = {"STRUCTBATCH_TOKEN": "weak"}

        assert (SECRET, "weak") == (parse(URL, environ, token=SECRET).secret(), parse(URL, environ).secret())


class TestEnvironment:
    """
    Variables.
    """

    def test_an_unknown_variable_is_an_error_with_the_nearest(self) -> None:
        """
        A setting that nobody reads is a trap.
        """
        with pytest.raises(
            ConfigError, match=r"STRUCTBATCH_BATCH_MAX_RECORD.*did you mean 'STRUCTBATCH_BATCH_MAX_RECORDS'"
        ):
            parse(URL, {"STRUCTBATCH_BATCH_MAX_RECORD": "1"})

    def test_variables_of_tests_and_empty_ones_are_passed_over(self) -> None:
        """
        Templates of orchestrators leave empty variables behind.
        """
        environ = {"STRUCTBATCH_TEST_X": "1", "STRUCTBATCH_MAX_SENDERS": " ", "STRUCTBATCH_TOKEN": "", "OTHER": "x"}

        made = parse(URL, environ)

        assert Settings() == made.settings
        assert made.secret() is None

    def test_a_token_may_lie_in_a_file(self, tmp_path: Path) -> None:
        """
        As Kubernetes mounts them.
        """
        (tmp_path / "token").write_text(f"{SECRET}\n")

        assert SECRET == parse(URL, {"STRUCTBATCH_TOKEN_FILE": str(tmp_path / "token")}).secret()

    def test_two_tokens_are_one_too_many(self) -> None:
        """
        Nobody should have to guess which one is sent.
        """
        with pytest.raises(ConfigError, match="both set") as caught:
            parse(URL, {"STRUCTBATCH_TOKEN": SECRET, "STRUCTBATCH_TOKEN_FILE": "/x"})

        assert SECRET not in str(caught.value)

    def test_a_vendor_that_wants_a_token_says_so(self) -> None:
        """
        While configuring, not with the first 401.
        """
        with pytest.raises(ConfigError, match=r"datadog takes nothing without a token: .* STRUCTBATCH_TOKEN"):
            parse("datadog://")

    def test_undecodable_bytes_do_no_harm(self) -> None:
        """
        What the system's encoding could not read is replaced.
        """
        assert "a\ufffdb" == resource_of(parse(URL, {"STRUCTBATCH_SERVICE": "a\udcffb"}))["service.name"]

    def test_from_env_wants_a_url(self) -> None:
        """
        A clear sentence instead of a KeyError.
        """
        with pytest.raises(ConfigError, match="STRUCTBATCH_URL is not set"):
            config.from_env()


class TestResource:
    """
    Who speaks.
    """

    def test_a_service_is_never_guessed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """
        Only the machine's name is known without being told.
        """
        monkeypatch.setattr(socket, "gethostname", lambda: "web-1")

        assert b'{"resource":{"host.name":"web-1"}}' == parse().source

    def test_a_machine_without_a_name_is_no_error(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """
        The attribute is left out.
        """

        def refuse() -> str:
            raise OSError

        monkeypatch.setattr(socket, "gethostname", refuse)

        assert b'{"resource":{}}' == parse().source

    def test_percent_codes_are_read_and_odd_entries_passed_over(self) -> None:
        """
        As OpenTelemetry's specification has it.
        """
        text = "a=b%2Cc%3D, d = e ,nothing,=empty,,f=g=h"

        found = resource_of(parse(URL, {"OTEL_RESOURCE_ATTRIBUTES": text}, host="h"))

        assert {"a": "b,c=", "d": "e", "f": "g=h", "host.name": "h"} == found

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"service": 5}, "service=5 is not text"),
            ({"resource": {"host.name": ["a"]}}, r"host=\['a'\] is not text"),
            ({"resource": {"a": object()}}, "resource holds what JSON cannot carry"),
            ({"resource": {1: "a"}}, "resource holds what JSON cannot carry"),
        ],
    )
    def test_what_json_cannot_carry_is_refused(self, arguments: dict[str, Any], message: str) -> None:
        """
        While configuring, for every record would carry it.
        """
        with pytest.raises(ConfigError, match=message):
            parse(URL, **arguments)


class TestEffectiveSettings:
    """
    The vendor's limits win when they are lower.
    """

    def test_lower_limits_win(self) -> None:
        """
        All three, and an event still fits into its batch.
        """
        made = config.effective_settings(Settings(), Limits(max_records=10, max_bytes=60_000, max_event_bytes=50_000))
        tight = config.effective_settings(Settings(), Limits(max_bytes=60_000))

        assert (10, 60_000, 50_000) == (made.batch_max_records, made.batch_max_bytes, made.max_event_bytes)
        assert 60_000 - HEADER_BYTES == tight.max_event_bytes

    def test_higher_limits_change_nothing(self) -> None:
        """
        A limit is no setting.
        """
        assert Settings() == config.effective_settings(Settings(), Limits())

    def test_parse_applies_them(self) -> None:
        """
        Datadog takes a thousand records.
        """
        assert 1000 == parse("datadog://", token=SECRET, batch_max_records=5000).settings.batch_max_records

    def test_compression_is_kept(self) -> None:
        """
        Where the vendor takes it.
        """
        assert Compression.ZSTD is parse(URL, compression="zstd").settings.compression


class TestTransport:
    """
    How to get there.
    """

    def test_nothing_said_is_the_environments_way(self) -> None:
        """
        The factory makes a transport with its own defaults.
        """
        made = parse().transport()

        assert isinstance(made, RequestsTransport)
        made.close()

    @pytest.mark.parametrize("name", ["ca_bundle", "client_cert"])
    def test_a_missing_file_is_said_at_once(self, name: str, tmp_path: Path) -> None:
        """
        Not at the first request.
        """
        with pytest.raises(ConfigError, match=f"{name}=.*does not exist"):
            parse(URL, **{name: str(tmp_path / "nothing.pem")})

    def test_a_key_needs_its_certificate(self) -> None:
        """
        One without the other is a mistake.
        """
        with pytest.raises(ConfigError, match="client_key without client_cert"):
            parse(f"{URL}?client_key=/x")

    def test_a_proxy_is_never_shown(self) -> None:
        """
        Its URL may hold a password.
        """
        made = parse(URL, proxy=f"http://u:{SECRET}@127.0.0.1:1")

        assert SECRET not in repr(made)


class TestFromUrl:
    """
    The thin wrapper.
    """

    @pytest.fixture(name="built")
    def _built(self, monkeypatch: pytest.MonkeyPatch) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
        built: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
        monkeypatch.setattr(config, "Pipeline", lambda *args, **kwargs: built.append((args, kwargs)))
        return built

    def test_everything_reaches_the_pipeline(self, built: list[tuple[tuple[Any, ...], dict[str, Any]]]) -> None:
        """
        What `config.parse` made, and the callables as they are.
        """
        before = dict
        on_problem = print

        config.from_url(
            URL,
            token=SECRET,
            before=before,
            on_problem=on_problem,
            service="shop",
            host="h",
            name="logs",
            max_senders=2,
        )

        ((vendor, settings), kwargs) = built[0]
        assert (Ndjson("http://127.0.0.1:8080/ingest"), 2, "logs") == (vendor, settings.max_senders, kwargs["name"])
        assert (before, on_problem, SECRET) == (kwargs["before"], kwargs["on_problem"], kwargs["secret"]())
        assert b'{"resource":{"host.name":"h","service.name":"shop"}}' == kwargs["source"]

    @pytest.mark.parametrize(("proxy", "expected"), [(None, {"proxy": None}), (FROM_ENVIRONMENT, {})])
    def test_no_proxy_differs_from_no_word_of_it(
        self, built: list[tuple[tuple[Any, ...], dict[str, Any]]], proxy: Any, expected: dict[str, Any]
    ) -> None:
        """
        None goes straight, whatever the environment says.
        """
        config.from_url(URL, proxy=proxy)

        assert expected == built[0][1]["transport"].keywords

    def test_without_a_token_there_is_no_secret(self, built: list[tuple[tuple[Any, ...], dict[str, Any]]]) -> None:
        """
        None, so that the engine need not ask.
        """
        config.from_url(URL)

        assert built[0][1]["secret"] is None

    def test_a_wrong_argument_is_named(self) -> None:
        """
        Keyword arguments are spelled as everywhere.
        """
        with pytest.raises(ConfigError, match="'batch_max_record' is no argument; did you mean 'batch_max_records'"):
            config.from_url(URL, batch_max_record=1)

    def test_from_env_reads_the_url(
        self, built: list[tuple[tuple[Any, ...], dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """
        The rest is as for `config.from_url`, arguments included.
        """
        monkeypatch.setenv("STRUCTBATCH_URL", f" {URL} ")
        monkeypatch.setenv("STRUCTBATCH_MAX_SENDERS", "3")

        config.from_env(name="logs")

        assert ("logs", 3) == (built[0][1]["name"], built[0][0][1].max_senders)


@pytest.mark.parametrize("name", ["api_key", "apikey", "key", "secret", "password", "Access-Token"])
def test_a_secret_by_any_name_is_sent_to_the_token(name: str) -> None:
    """
    Whoever puts a key into the URL is told where it belongs, not how to send it in the URL all the same.
    """
    with pytest.raises(ConfigError, match="give token=") as caught:
        parse(f"ndjson+http://127.0.0.1:1/in?{name}=s3cr3t")

    assert "s3cr3t" not in str(caught.value)
    assert "query." not in str(caught.value)


def test_no_url_at_all_is_a_config_error() -> None:
    """
    ``from_url(os.environ.get(...))`` with an unset variable says what is missing.
    """
    with pytest.raises(ConfigError, match="no URL"):
        parse(None)  # type: ignore[arg-type]
