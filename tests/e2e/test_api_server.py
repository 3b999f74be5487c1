"""The HTTP API, tested with OpenAI's own client and with plain requests."""

import subprocess
import sys
import threading
import urllib.error

import pytest

from conftest import HEADER, HERE, free_port, request, until

KEY = "e2e-0123456789abcdef"


@pytest.fixture
def api(host, isolation):
    base = f"http://127.0.0.1:{free_port()}"
    section = f"""
test_words = true

[adapter.api_server]
listen    = "{base.removeprefix("http://")}"
key       = {{ env = "API_SERVER_KEY" }}
isolation = "{isolation}"
"""
    one = host(HEADER + section, {"API_SERVER_KEY": KEY}).start(online=["api_server"])
    yield one, base
    one.stop()


def ask(base, text, key=None, timeout=60):
    headers = {"authorization": f"Bearer {KEY}", **({"idempotency-key": key} if key else {})}
    body = {"messages": [{"role": "user", "content": text}]}
    return request("POST", f"{base}/v1/chat/completions", body, headers, timeout)["choices"][0]["message"]["content"]


def test_the_official_client_is_content(api):
    _, base = api
    client = [sys.executable, HERE / "openai_client.py", f"{base}/v1", KEY]
    done = subprocess.run(client, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_requester_that_goes_stops_its_turn(api):
    one, base = api
    with pytest.raises(OSError):
        ask(base, "/hang here", timeout=1)
    until("the turn is stopped", lambda: one.status()["queues"]["turns"] == 0)
    assert ask(base, "hello") == "hello"


def test_a_request_repeated_after_a_crash_gets_its_answer_from_one_turn(api):
    one, base = api
    words = "/slow 300 one two three four five"
    cut_off = []

    def first():
        try:
            ask(base, words, "k1")
        except OSError as error:
            cut_off.append(error)

    asking = threading.Thread(target=first)
    asking.start()
    until("the turn runs", lambda: one.status()["queues"]["turns"] == 1)
    one.kill()
    asking.join()
    assert cut_off, "the crash was seen by the client"
    one.start(online=["api_server"])
    assert ask(base, words, "k1") == "one two three four five"
    assert ask(base, words, "k1") == "one two three four five"


def test_a_failed_turn_is_an_error_in_the_shape_of_openai(api):
    _, base = api
    with pytest.raises(urllib.error.HTTPError) as failed:
        ask(base, "/fail")
    assert failed.value.code == 502 and failed.value.headers["x-should-retry"] == "false"
