import copy
import pickle

import pytest

from stockade import JobError, Network, Policy, Secret
from stockade.api.brokered import opened
from stockade.api.job_arguments import job_from_source
from stockade.policy import stricter
from stockade.runs.secret import placeholder


def test_secret_shows_its_hosts_and_never_its_value():
    secret = Secret("sk-12345", hosts=["Api.example.com", "b.example.com:8443"])
    assert secret.reveal() == "sk-12345"
    assert repr(secret) == "Secret(hosts=['api.example.com:443', 'b.example.com:8443'])"
    job = job_from_source("1", secrets={"KEY": secret})
    assert "sk-12345" not in repr(job) and job.environment == {"KEY": placeholder("KEY")}
    for write in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError):
            write(secret)


def test_secret_of_a_variable_is_read_late(monkeypatch):
    secret = Secret.from_env("SOME_KEY", hosts=["api.example.com"])
    with pytest.raises(JobError, match="SOME_KEY is not set"):
        secret.reveal()
    monkeypatch.setenv("SOME_KEY", "one")
    assert secret.reveal() == "one"
    monkeypatch.setenv("SOME_KEY", "t\nwo")
    with pytest.raises(JobError, match="visible ASCII"):
        secret.reveal()


@pytest.mark.parametrize("value", ["", "a b", "a\r\nX: y", "é", "a\0", "x" * 9000, b"bytes", None])
def test_value_that_no_header_field_takes_is_refused(value):
    with pytest.raises(JobError, match="visible ASCII"):
        Secret(value, hosts=["api.example.com"])


@pytest.mark.parametrize(
    "host",
    ["*.example.com", "10.0.0.5", "[::1]:443", "api.example.com:80", "a_b.example.com", "api.example.com.", "", 7],
)
def test_host_whose_server_nothing_would_prove_is_refused(host):
    with pytest.raises(JobError, match="secrets: "):
        Secret("x", hosts=[host])


@pytest.mark.parametrize("hosts", [[], "api.example.com"])
def test_secret_needs_a_list_of_hosts(hosts):
    with pytest.raises(JobError):
        Secret("x", hosts=hosts)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"secrets": {"A-B": Secret("x", hosts=["a.org"])}}, "not a variable name"),
        ({"secrets": {"KEY": "sk-1"}}, "must be a stockade.Secret, not str"),
        ({"secrets": {"KEY": Secret("x", hosts=["a.org"])}, "environment": {"KEY": "y"}}, "set by secrets as well"),
        ({"on_ask": "yes"}, "expected a function"),
    ],
)
def test_job_refuses_what_is_no_secret(options, reason):
    with pytest.raises(JobError, match=reason):
        job_from_source("1", **options)


@pytest.mark.parametrize(
    ("policy", "options", "reason"),
    [
        ({}, {"secrets": True}, "a bounded way out is needed"),
        ({"network": {"allow": ["b.org:443"]}}, {"secrets": True}, "network.allow does not list; add 'a.org:443'"),
        ({"network": {"allow": ["a.org:443"]}, "environment": {"inherit": ["KEY"]}}, {"secrets": True}, "inherit"),
        ({"network": {"allow": ["a.org:443"]}}, {"on_ask": bool}, "set ask=True"),
    ],
)
def test_run_refuses_secrets_that_its_policy_does_not_carry(policy, options, reason):
    if "secrets" in options:
        options = {"secrets": {"KEY": Secret("x", hosts=["a.org"])}}
    with pytest.raises(JobError, match=reason), opened(job_from_source("1", **options), Policy.parse(policy)):
        pass


def test_ceiling_without_questions_ends_them():
    ours, most = Network(allow=["a.org:1"], ask=True), Network(allow=["a.org:1"])
    both = stricter.network(ours, most, Policy())
    assert both.ask is False and stricter.network(ours, ours, Policy()).ask is True
