"""A monitor raises alerts about real runs, and nobody waits for their delivery."""

import hashlib
import hmac
import json
import logging
import os
import socket
import ssl
import subprocess
import threading
import time
from contextlib import contextmanager, suppress

import pytest

import stockade
from stockade import JobError, Monitor, Webhook
from stockade.observe.delivery import MOST_WAITING, Delivery
from stockade.observe.rules import DeniedCalls, EscapeAttempt, LimitsMet, NewFailure
from stockade.observe.webhook import WebhookError

SLOW = {"limits": {"wall_time": "200ms"}}
PTRACE = "import ctypes\nfor _ in range(12): ctypes.CDLL(None).ptrace(0, 0, 0, 0)"
OK = b"HTTP/1.1 204 No Content\r\n\r\n"


@pytest.fixture
def configured():
    """Set something for the whole process, and put it back."""
    yield stockade.configure
    stockade.configure()


@contextmanager
def receiver(*answers, drip=0.0, context=None):
    """Yield the port of a server on the loopback, and the requests it got. It gives each answer once; ``drip`` is the
    seconds between its bytes.
    """
    requests = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            for answer in answers:
                try:
                    sock, _ = listener.accept()
                except OSError:
                    return
                with (
                    suppress(OSError),
                    sock if context is None else context.wrap_socket(sock, server_side=True) as sock,
                ):
                    data = b""
                    while b"\r\n\r\n" not in data or len(data.partition(b"\r\n\r\n")[2]) < length_in(data):
                        data += sock.recv(65536)
                    requests.append(data)
                    for byte in answer if drip else ():
                        sock.sendall(bytes([byte]))
                        time.sleep(drip)
                    sock.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1], requests
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(10)


def length_in(data):
    fields = data.partition(b"\r\n\r\n")[0].lower().split(b"\r\n")
    return int(next(each for each in fields if each.startswith(b"content-length:")).partition(b":")[2])


class TestAlerts:
    def test_limits_of_one_label(self, configured, caplog):
        alerts = []
        monitor = Monitor(rules=[LimitsMet(count=2)], on_alert=alerts.append)
        configured(monitor=monitor)
        with caplog.at_level(logging.WARNING, "stockade"):
            for user in ("eve", "ada", "eve"):
                stockade.run_command(["sleep", "9"], policy=SLOW, labels={"user": user})
        assert monitor.wait()
        (alert,) = alerts
        assert (alert.rule, alert.label) == ("limits_met", "user=eve")
        assert [record.message for record in caplog.records if "alert" in record.message] == [f"alert: {alert}"]

    def test_denied_calls_of_one_run(self):
        alerts = []
        monitor = Monitor(rules=[DeniedCalls(count=10), EscapeAttempt()], on_alert=alerts.append)
        stockade.Runner({"security": {"explain_denials": True}}, hooks=monitor.hooks).run(PTRACE)
        assert monitor.wait()
        assert [(each.rule, "ptrace" in each.message) for each in alerts] == [
            ("denied_calls", True),
            ("escape_attempt", True),
        ]

    def test_connection_to_metadata(self):
        alerts = []
        monitor = Monitor(rules=[EscapeAttempt()], on_alert=alerts.append)
        runner = stockade.Runner({"network": {"allow": ["example.org:443"]}}, hooks=monitor.hooks)
        runner.run("import urllib.request as u; u.urlopen('http://169.254.169.254/')")
        assert monitor.wait()
        assert [each.message for each in alerts] == ["the proxy refused connections to 169.254.169.254:80"]

    def test_new_kind_of_failure_with_the_callers_clock(self):
        alerts = []
        monitor = Monitor(rules=[NewFailure(after=1)], on_alert=alerts.append, clock=lambda: 86400.0)
        runner = stockade.Runner(hooks=monitor.hooks)
        runner.run("print(1)")
        runner.run("import os; os.abort()")
        assert monitor.wait()
        assert [(each.at, each.message) for each in alerts] == [
            ("1970-01-02T00:00:00.000Z", "the first run that ended like this: crashed by signal 6")
        ]

    def test_rule_that_fails_changes_no_run(self, caplog):
        class Broken:
            name = "broken"

            def step(self, state, ended):
                raise ValueError("no luck")

        assert stockade.Runner(hooks=Monitor(rules=[Broken()]).hooks).run("print(1)").ok
        assert "hook on_finish failed: ValueError: no luck" in caplog.text

    @pytest.mark.parametrize(
        ("options", "reason"),
        [
            ({"on_alert": 5}, "on_alert must be"),
            ({"label": ""}, "a label's name"),
            ({"webhook": "ftp://x"}, "https://HOST"),
        ],
    )
    def test_bad_option(self, options, reason):
        with pytest.raises(JobError, match=reason):
            Monitor(**options)
        with pytest.raises(JobError, match=r"expected stockade\.Monitor"):
            stockade.configure(monitor=LimitsMet())


class TestDelivery:
    def test_no_run_waits_for_a_function(self):
        go_on = threading.Event()
        alerts = []

        def stuck(alert):
            alerts.append(alert)
            go_on.wait(60)

        monitor = Monitor(rules=[LimitsMet(count=1)], on_alert=stuck)
        runner = stockade.Runner(SLOW, hooks=monitor.hooks)
        for _ in range(3):
            assert runner.run_command(["sleep", "9"]).limit == "wall_time"
        assert not monitor.wait(0.01)
        go_on.set()
        assert monitor.wait()
        assert len(alerts) == 3

    def test_queue_is_bounded(self, caplog):
        go_on = threading.Event()
        done = []
        delivery = Delivery(lambda thing: (go_on.wait(60), done.append(thing)))
        for number in range(MOST_WAITING + 100):
            delivery.put(number)
        go_on.set()
        assert delivery.drain(30)
        assert MOST_WAITING <= len(done) <= MOST_WAITING + 1
        assert "alerts were dropped" in caplog.text

    def test_function_that_fails_loses_one_alert(self, caplog):
        done = []
        delivery = Delivery(lambda thing: done.append(1 // thing))
        for number in (0, 1):
            delivery.put(number)
        assert delivery.drain()
        assert done == [1]
        assert "an alert was not delivered: ZeroDivisionError" in caplog.text

    def test_fork_has_a_thread_of_its_own(self):
        told = os.pipe()
        delivery = Delivery(lambda thing: os.write(told[1], thing))
        delivery.put(b"parent")
        assert delivery.drain()
        assert os.read(told[0], 99) == b"parent"
        child = os.fork()
        if child == 0:
            delivery.put(b"child")
            os._exit(0 if delivery.drain(30) else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert os.read(told[0], 99) == b"child"


class TestWebhook:
    def test_alert_arrives_signed(self):
        with receiver(OK) as (port, requests):
            hook = Webhook(f"http://127.0.0.1:{port}/alerts?to=me", secret="of ours", private=True)
            monitor = Monitor(rules=[LimitsMet(count=1)], webhook=hook)
            stockade.Runner(SLOW, hooks=monitor.hooks).run_command(["sleep", "9"], labels={"user": "eve"})
            assert monitor.wait()
        head, _, body = requests[0].partition(b"\r\n\r\n")
        assert head.startswith(b"POST /alerts?to=me HTTP/1.1\r\nHost: 127.0.0.1:")
        assert json.loads(body)["label"] == "user=eve"
        signed = next(line for line in head.split(b"\r\n") if line.startswith(b"Stockade-Signature: "))
        at, made = (each.partition(b"=")[2] for each in signed.partition(b": ")[2].split(b","))
        assert made.decode() == hmac.new(b"of ours", at + b"." + body, hashlib.sha256).hexdigest()

    def test_name_of_this_host_is_refused(self):
        with receiver(OK) as (port, requests):
            with pytest.raises(WebhookError, match="a loopback address"):
                Webhook(f"http://localhost:{port}/", private=True).deliver(b"{}")
            assert requests == []
            Webhook(f"http://127.0.0.1:{port}/", private=True).deliver(b"{}")  # the same server, by its address
            assert len(requests) == 1

    @pytest.mark.parametrize(
        ("url", "reason"),
        [
            ("http://127.0.0.1/", "a loopback address; pass private=True"),
            ("http://[::ffff:127.0.0.1]/", "IPv4 address in IPv6 form"),
            ("http://169.254.169.254/latest", "link-local"),
            ("http://2130706433/", "neither a name nor an IPv4 address"),
            ("http://0x7f.1/", "neither a name"),
            ("file:///etc/passwd", "expected https://"),
            ("http://user@example.org/", "a user or a fragment"),
            ("http://example.org/a b", "expected a URL"),
            ("http://example.org/\r\nX: y", "expected a URL"),
            ("http://example.org:0/", "not a port"),
            ("https://", "is not a host name"),
        ],
    )
    def test_url_is_refused(self, url, reason):
        with pytest.raises(JobError, match=reason):
            Webhook(url)

    def test_status_decides(self):
        with receiver(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n", OK) as (port, requests):
            Webhook(f"http://127.0.0.1:{port}/", private=True).deliver(b"{}")
        assert len(requests) == 2  # a redirect counts as a failed delivery, and is not followed

    def test_slow_server_meets_the_deadline(self):
        with receiver(b"H" * 300, drip=0.1) as (port, _):
            hook = Webhook(f"http://127.0.0.1:{port}/", private=True, timeout=0.5)
            begun = time.monotonic()
            with pytest.raises(ValueError, match="did not answer in time"):
                hook._send(b"{}")
            assert time.monotonic() - begun < 15  # the answer takes 30 s

    def test_tls_proves_the_server(self, tmp_path):
        key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
        kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc", "-subj", "/CN=receiver"]
        named = ["-addext", "subjectAltName=IP:127.0.0.1"]
        made = ["openssl", "req", "-x509", *kind, *named, "-keyout", key, "-out", certificate]
        subprocess.run(made, check=True, capture_output=True)
        of_server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        of_server.load_cert_chain(certificate, key)
        with receiver(OK, OK, context=of_server) as (port, requests):
            hook = Webhook(f"https://127.0.0.1:{port}/", private=True)
            with pytest.raises(OSError, match="certificate verify failed"):
                hook._send(b"{}")
            assert requests == []
            hook._context = ssl.create_default_context(cafile=certificate)
            hook._send(b"{}")
        assert len(requests) == 1
