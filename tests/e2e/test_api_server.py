"""The HTTP API, tested with OpenAI's own client and with plain requests."""

import base64
import subprocess
import sys
import threading
import urllib.error

import openai
import pytest

from conftest import HEADER, HERE, free_port, request, until
from files import FILES, is_read

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


def test_the_text_of_a_text_file_and_of_a_pdf_file_reaches_the_turn(api):
    one, base = api
    client = openai.OpenAI(base_url=f"{base}/v1", api_key=KEY, max_retries=0, timeout=60)

    def answer(part):
        content = [{"type": "text", "text": "read it"}, part]
        return client.chat.completions.create(model="hermes", messages=[{"role": "user", "content": content}]).choices[0].message.content

    for name, content, text in FILES:
        data = base64.b64encode(content.encode()).decode()
        mime = "application/pdf" if name.endswith("pdf") else "text/csv"
        file = {"filename": name, "file_data": f"data:{mime};base64,{data}"}
        assert text.strip() in answer({"type": "file", "file": file})
        assert is_read(one, name, text)
        assert text.strip() in answer({"type": "input_file", "filename": f"2-{name}", "file_data": data})
        assert is_read(one, f"2-{name}", text)
    for part in ({"type": "file", "file": {"file_id": "file-1"}}, {"type": "input_file", "file_url": f"{base}/a.pdf"}):
        with pytest.raises(openai.BadRequestError) as refused:
            answer(part)
        assert refused.value.code == "invalid_value" and "send the content as file_data" in refused.value.message


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
