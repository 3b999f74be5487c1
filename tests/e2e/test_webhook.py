"""Signed webhooks with the built host and library: official clients sign, and the Telegram emulator receives the
answers."""

import datetime
import hashlib
import hmac
import json
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest
import standardwebhooks
import svix.webhooks

from conftest import HEADER, free_port, telegram_section, until

SECRET = "e2e-0123456789abcdef"
WHSEC = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ROUTES = f"""
[adapter.webhook.routes.log]

[adapter.webhook.routes.std]
secrets = ["{WHSEC}", "an-older-secret"]
prompt  = "{{text}}"

[adapter.webhook.routes.ops]
prompt  = "{{text}} ({{event_type}})"
deliver = "telegram:7"
"""


class Hooks:
    def __init__(self, one, base):
        self.one, self.base = one, base

    def post(self, route, body, headers):
        call = urllib.request.Request(f"{self.base}/webhooks/{route}", body, headers, method="POST")
        try:
            with urllib.request.urlopen(call, timeout=30) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as refused:
            return refused.code, json.loads(refused.read())

    def v1(self, route, said, number, secret=SECRET, **headers):
        body = said if isinstance(said, bytes) else json.dumps(said).encode()
        tag = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
        return self.post(route, body, {"X-Webhook-Signature": tag, "X-Request-ID": number, **headers})

    def said(self):
        return self.one.program.said()

    def logs(self, words):
        until(f"the log says {words}", lambda: words in self.said())


def section(base, isolation, more="", routes=ROUTES):
    return f"""
[adapter.webhook]
listen    = "{base.removeprefix("http://")}"
secret    = "{SECRET}"
isolation = "{isolation}"
{more}
{routes}
"""


@pytest.fixture
def hooks(host, isolation):
    """Creates hosts with webhooks and further sections."""

    def make(telegram=None, more="", routes=ROUTES, header=HEADER):
        base = f"http://127.0.0.1:{free_port()}"
        beside = telegram_section(telegram, isolation) if telegram else ""
        one = host(header + beside + section(base, isolation, more, routes))
        one.start(online=["webhook", *(["telegram"] if telegram else [])])
        return Hooks(one, base)

    return make


def test_what_the_official_clients_sign_is_taken_and_nothing_else(hooks):
    hooked = hooks()
    body = json.dumps({"text": "signed by the book", "type": "invoice.paid"})
    for prefix, library in (("webhook", standardwebhooks.Webhook), ("svix", svix.webhooks.Webhook)):

        def headers(number, at, secret=WHSEC, of=body):
            signature = library(secret).sign(number, at, of)
            return {f"{prefix}-id": number, f"{prefix}-timestamp": str(int(at.timestamp())), f"{prefix}-signature": signature}

        now = datetime.datetime.now(tz=datetime.timezone.utc)
        good = headers(f"msg_{prefix}", now)
        library(WHSEC).verify(body, good)
        assert hooked.post("std", body.encode(), good) == (202, {"status": "accepted", "route": "std", "event": "invoice.paid", "delivery_id": f"msg_{prefix}"})
        assert hooked.post("std", body.encode(), good)[1]["status"] == "duplicate"
        for wrong in (
            headers("old", now - datetime.timedelta(seconds=400)),
            headers("early", now + datetime.timedelta(seconds=400)),
            headers("another", now, of=body + " "),
            headers("stranger", now, secret="whsec_" + "A" * 32),
            {**good, f"{prefix}-id": "exchanged"},
            {name: value for name, value in good.items() if not name.endswith("timestamp")},
        ):
            assert hooked.post("std", body.encode(), wrong) == (401, {"error": "the signature is missing or wrong"}), wrong
    hooked.logs("signed by the book")


def test_github_and_gitlab_as_their_documentation_says(hooks):
    routes = """
[adapter.webhook.routes.vector]
secret = "It's a Secret to Everybody"
[adapter.webhook.routes.github]
secrets = ["the-secret-before", "the-secret-after"]
signature = "github"
[adapter.webhook.routes.gitlab]
secret = "a-token-of-gitlab"
signature = "gitlab"
"""
    hooked = hooks(routes=routes)
    # https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries: its body is not JSON, so the
    # event is recognised but not parsed.
    vector = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    plain = {"X-Hub-Signature-256": vector, "Content-Type": "text/plain"}
    assert hooked.post("vector", b"Hello, World!", plain)[0] == 400
    assert hooked.post("vector", b"Hello, World?", plain)[0] == 401
    body = json.dumps({"action": "opened"}).encode()

    def github(secret, number, **more):
        tag = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
        return hooked.post("github", body, {"X-Hub-Signature-256": f"sha256={tag}", "X-GitHub-Event": "pull_request", "X-GitHub-Delivery": number, **more})

    assert github("the-secret-before", "g1", **{"X-GitHub-Event": "ping"}) == (200, {"status": "pong"})
    assert github("the-secret-before", "g1")[0] == 202
    assert github("the-secret-after", "g1") == (200, {"status": "duplicate", "delivery_id": "g1"})
    assert github("the-secret-after", "g2")[1]["status"] == "duplicate", "a recorded call under another id"
    assert github("no-secret-at-all", "g4")[0] == 401
    form = urllib.parse.urlencode({"payload": json.dumps({"action": "in a form"})}).encode()
    tag = hmac.new(b"the-secret-after", form, hashlib.sha256).hexdigest()
    headers = {"X-Hub-Signature-256": f"sha256={tag}", "X-GitHub-Delivery": "g5", "Content-Type": "application/x-www-form-urlencoded"}
    assert hooked.post("github", form, headers)[0] == 202
    hooked.logs("in a form")
    gitlab = {"X-Gitlab-Token": "a-token-of-gitlab", "X-Gitlab-Event": "Push Hook", "Idempotency-Key": "k1", "X-Gitlab-Event-UUID": "e1"}
    assert hooked.post("gitlab", body, gitlab) == (202, {"status": "accepted", "route": "gitlab", "event": "Push Hook", "delivery_id": "k1"})
    assert hooked.post("gitlab", body, gitlab)[1]["status"] == "duplicate"
    assert hooked.post("gitlab", body, {**gitlab, "X-Gitlab-Token": "a-token-of-gitlaB"})[0] == 401


def test_an_answer_goes_to_a_telegram_chat_and_a_payload_is_no_template_and_no_command(hooks, telegram):
    hooked = hooks(telegram)
    assert hooked.v1("ops", {"text": "/status {secret} {event_type}", "secret": "hidden", "type": "alert"}, "1")[0] == 202
    assert telegram.answers(7, 1) == ["/status {secret} {event_type} (alert)"]
    status, answer = hooked.v1("ops", {"text": "/new"}, "2")
    assert (status, answer["event"]) == (202, "unknown")
    assert telegram.answers(7, 2)[1] == "/new (unknown)"
    hooked.one.stop()
    assert len(telegram.from_bot(7)) == 2
    telegram.verdict()


def test_a_text_is_passed_on_without_the_agent(hooks, telegram):
    routes = '[adapter.webhook.routes.pass]\nprompt = "{a.0.b}: {text}"\ndeliver = "telegram:8"\ndeliver_only = true\n'
    hooked = hooks(telegram, routes=routes)
    assert hooked.v1("pass", {"text": "disk is full", "a": [{"b": "ops"}]}, "1")[0] == 202
    assert telegram.answers(8, 1) == ["ops: disk is full"]
    assert json.loads(hooked.one.cli("session", "list", "--json").stdout) == [], "no agent heard it"
    assert hooked.v1("pass", {"text": "MEDIA:/etc/passwd"}, "2")[0] == 202
    assert telegram.answers(8, 2)[1].endswith("MEDIA:/etc/passwd")
    hooked.one.stop()
    telegram.verdict()


def test_what_is_too_much_or_not_wanted_is_said(hooks):
    routes = """
[adapter.webhook.routes.ci]
events = ["build"]
filters = [{ field = "payload.status", in = ["failed", "broken"] }, { not = { field = "branch", regex = "^wip/" } }]
rate_per_minute = 2
body_bytes_max = 2048
"""
    hooked = hooks(routes=routes)
    failed = {"type": "build", "status": "failed", "branch": "main"}
    assert hooked.v1("ci", {**failed, "type": "deploy"}, "1")[1] == {"status": "ignored", "reason": "event", "event": "deploy"}
    assert hooked.v1("ci", {**failed, "status": "passed"}, "2")[1]["reason"] == "filter"
    assert hooked.v1("ci", {**failed, "branch": "wip/x"}, "3")[1]["reason"] == "filter"
    assert hooked.v1("ci", {**failed, "filler": "x" * 2048}, "4")[0] == 413
    assert [hooked.v1("ci", {**failed, "n": n}, f"n{n}")[0] for n in range(4)] == [202, 202, 429, 429]
    assert hooked.v1("ci", {**failed, "n": 0}, "n0")[0] == 200, "a repetition is no call more"
    assert hooked.v1("nowhere", failed, "5")[0] == 401


def test_a_call_that_is_repeated_over_a_restart_starts_nothing(hooks):
    hooked = hooks()
    said = {"text": "once and for all"}
    assert hooked.v1("std", said, "r1", secret="an-older-secret")[0] == 202
    hooked.logs("the answer")
    hooked.one.stop()
    hooked.one.start(online=["webhook"])
    for number in ("r1", "r2"):
        assert hooked.v1("std", said, number, secret="an-older-secret") == (200, {"status": "duplicate", "delivery_id": number})
    assert hooked.v1("std", {"text": "another"}, "r1", secret="an-older-secret")[0] == 202, "an id that is not signed keeps nobody out"


def test_what_was_answered_202_is_answered_after_a_kill(hooks, telegram):
    hooked = hooks(telegram, header=HEADER + "test_words = true\n")
    assert hooked.v1("ops", {"text": "/slow 4000 kept"}, "k1")[0] == 202
    hooked.one.kill()
    assert telegram.from_bot(7) == []
    hooked.one.start(online=["webhook", "telegram"])
    answers = telegram.answers(7, 1)
    assert "kept" in answers[0], answers
    assert hooked.v1("ops", {"text": "/slow 4000 kept"}, "k1")[1]["status"] == "duplicate"
    hooked.one.stop()
    assert len(telegram.from_bot(7)) == 1
    telegram.verdict()


def test_routes_are_added_while_it_runs_and_stay(hooks, tmp_path):
    folder = tmp_path / "routes"
    folder.mkdir(mode=0o700)
    hooked = hooks(more=f'routes_dir = "{folder}"', routes="")
    assert hooked.v1("added", {"a": 1}, "1")[0] == 401
    new = folder / "new"
    new.write_text(json.dumps({"added": {"prompt": "added: {a}"}, "bad": {"secret": "short"}}))
    new.rename(folder / "added.json")
    assert hooked.v1("added", {"a": 1}, "1")[0] == 202
    hooked.logs("added: 1")
    reason = until("what is wrong is said", lambda: hooked.one.wait_state("webhook", "degraded")["reason"])
    assert "route `bad` has a secret with fewer than 8 characters" in reason and "short" not in reason.replace("shorten", "")
    (folder / "added.json").write_text(json.dumps({"added": {"prompt": "changed: {a}"}}))
    hooked.one.wait_online("webhook")
    hooked.one.stop()
    hooked.one.start(online=["webhook"])
    assert hooked.v1("added", {"a": 2}, "2")[0] == 202
    hooked.logs("changed: 2")


def test_an_answer_to_where_nobody_is_waits_or_is_logged_with_the_reason(hooks):
    routes = """
[adapter.webhook.routes.later]
prompt  = "{text}"
deliver = "telegram:7"
[adapter.webhook.routes.homeless]
deliver = "webhook"
"""
    hooked = hooks(routes=routes)
    assert hooked.v1("later", {"text": "kept for later"}, "1")[0] == 202
    owed = until("it is owed", lambda: [row for row in json.loads(hooked.one.cli("outbox", "list", "--json").stdout) if row["instance"] == "telegram"])
    assert (owed[0]["state"], owed[0]["chat"]) == ("owed", "7")
    assert "kept for later" in hooked.one.cli("outbox", "show", str(owed[0]["id"])).stdout
    hooked.logs('there is no instance "telegram"')
    assert hooked.v1("homeless", {"text": "led nowhere"}, "2")[0] == 202
    hooked.logs("not delivered to")


def test_nothing_starts_without_a_secret(host):
    one = host(HEADER + "\n[adapter.webhook]\nlisten = \"127.0.0.1:0\"\n[adapter.webhook.routes.open]\n")
    checked = one.cli("config", "check", check=False)
    assert checked.returncode != 0 and "route `open` has no secret" in checked.stdout + checked.stderr, checked
    one.start()
    failed = one.wait_state("webhook", "failed")
    assert "route `open` has no secret" in failed["reason"], failed


def test_a_signature_with_a_time_is_taken_within_its_window(hooks):
    hooked = hooks()

    def v2(offset, number):
        stamp, body = str(int(time.time()) + offset), json.dumps({"n": number}).encode()
        tag = hmac.new(SECRET.encode(), stamp.encode() + b"." + body, hashlib.sha256).hexdigest()
        return hooked.post("log", body, {"X-Webhook-Signature-V2": tag, "X-Webhook-Timestamp": stamp, "X-Request-ID": number})[0]

    assert [v2(0, "now"), v2(-400, "old"), v2(400, "early")] == [202, 401, 401]
