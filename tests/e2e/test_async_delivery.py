"""Black-box tests of results that are delivered after a turn, for each kind of interface.

Covers each case of hermes-agent's `tests/gateway/test_async_delivery.py`. `gate` is
`host/agent/tests/tools/gate.rs`, next to the code.

| their case | ours |
|---|---|
| default_unbound_is_supported | gate: never_bound_counts_as_supported; the terminal, below, runs outside of any chat |
| set_true_is_supported | `test_over_a_chat_what_is_promised_is_kept` |
| set_false_is_unsupported | `test_over_a_request_nothing_is_promised_and_its_platform_is_readable` |
| omitted_arg_defaults_supported | `test_what_an_adapter_can_is_what_its_manifest_says` (telegram says nothing of it), `test_over_a_chat_…` |
| clear_resets_to_default_supported | gate: cleared_falls_back_to_supported; `test_a_request_leaves_nothing_behind_for_the_next_turn` |
| base_default_true, api_server_false | `test_what_an_adapter_can_is_what_its_manifest_says` |
| api_server_bind_chokepoint_hardwires_no_delivery | `test_over_a_request_…`, once for each way to ask |
| api_server_binding_does_not_outlive_turn | `test_the_same_conversation_is_promised_things_where_it_goes_on_in_a_chat` |
| api_server_skips_watcher_and_notes | `test_over_a_request_…` |
| gateway_registers_watcher | `test_over_a_chat_…` |
| cli_stays_supported | `test_at_the_terminal_what_is_promised_is_kept` |
"""

import json

import httpx
import pytest

from conftest import BIN, free_port, request, telegram_section, until
from test_api_server import KEY
from test_model import config, model, with_scripts  # noqa: F401 - a fixture
from test_terminal import terminal  # noqa: F401 - a fixture

ASKED = "promise me"
TOOLS = 'tools = ["terminal", "process", "delegate_task"]\n'
# Owner of the key: with a name in the list it is the operator, whose conversations continue in every place.
CALLER = "api"


def api_section(base):
    return f"""
[adapter.api_server]
listen = "{base.removeprefix("http://")}"
key    = {{ env = "API_SERVER_KEY" }}
access = {{ allowed_users = ["{CALLER}"] }}
"""


@pytest.fixture
def place(host, telegram, model, isolation):  # noqa: F811 - the same
    """Returns a host that is reached by requests, in a chat and at the terminal."""
    base = f"http://127.0.0.1:{free_port()}"
    section = TOOLS + api_section(base).replace("key ", f'isolation = "{isolation}"\nkey ', 1) + telegram_section(telegram, isolation)
    one = with_scripts(host(config(model) + section, {"OPENAI_API_KEY": "sk-test", "API_SERVER_KEY": KEY}))
    one.start(online=["api_server", "telegram"])
    one.api, one.model, one.telegram = base, model, telegram
    yield one
    one.stop()


def asked(model):  # noqa: F811 - an address here
    """Returns, for each request to the model, the last message and the tool results after it."""
    journal = request("GET", f"{model}/__aimock/journal")
    found = []
    for entry in journal["entries"] if isinstance(journal, dict) else journal:
        said, results = "", []
        for message in entry["body"]["messages"]:
            if message["role"] == "user":
                said, results = message["content"], []
            elif message["role"] == "tool":
                results.append(message["content"])
        found.append((said, results))
    return found


def told(model):  # noqa: F811 - an address here
    """Returns the results of the model's last four calls."""
    ended, watched, printed, handed = [results for said, results in asked(model) if ASKED in said and results][-1]
    return json.loads(ended), json.loads(watched), json.loads(printed)["output"].split(), json.loads(handed)


def over(base, way, text=ASKED):
    """Sends a request over the HTTP API and waits for the complete answer."""
    headers = {"authorization": f"Bearer {KEY}"}
    if way == "named":
        headers["x-hermes-session-id"] = "boats"
    body = {"messages": [{"role": "user", "content": text}], "stream": way == "streamed"}
    path = "/v1/chat/completions"
    if way == "events":
        path, body = "/api/chat/stream", {"message": text}
    answer = httpx.post(base + path, json=body, headers=headers, timeout=60)
    assert answer.status_code == 200, answer.text


def nothing_is_promised(ended, watched, handed):
    assert ended["notify_on_complete"] is False
    assert "poll" in ended["notify_unsupported"]
    assert watched["watch_patterns"] == [] and "poll" in watched["notify_unsupported"]
    assert handed["result"] == "Seven sheep." and "ran in the foreground" in handed["note"], handed


def everything_is_promised(ended, watched, handed):
    assert ended["notify_on_complete"] is True and "notify_unsupported" not in ended
    assert watched["watch_patterns"] == ["READY"] and "notify_unsupported" not in watched
    assert handed["task"] and "result" not in handed


def woken(model):  # noqa: F811 - an address here
    """Waits until the agent was woken exactly once for each of the three promised results."""
    for news in ("DONE", "READY", "Seven sheep."):
        until(f"it is woken with {news}", lambda news=news: [said for said, _ in asked(model) if news in said])
        assert len([said for said, results in asked(model) if news in said and not results]) == 1, news


def test_what_an_adapter_can_is_what_its_manifest_says(host):
    one = host("")
    for name, delivers in (("api_server", False), ("telegram", True), ("webchat", True), ("echo", True)):
        shown = json.loads(one.cli("adapter", "inspect", BIN / f"libhermes_adapter_{name}.so", "--json").stdout)
        assert shown["capabilities"]["supports_async_delivery"] is delivers, name


@pytest.mark.parametrize("way", ["whole", "streamed", "named", "events"])
def test_over_a_request_nothing_is_promised_and_its_platform_is_readable(place, way):
    over(place.api, way)
    ended, watched, (platform, key), handed = told(place.model)
    nothing_is_promised(ended, watched, handed)
    assert platform == "api_server" and ":api_server:" in key
    # After another complete turn there was still no wake: the model was only called for messages of people and for
    # the helper's task.
    over(place.api, way, "hello")
    assert {said for said, _ in asked(place.model)} == {ASKED, "count the sheep", "hello"}


def test_over_a_chat_what_is_promised_is_kept(place):
    place.telegram.says(7, ASKED)
    until("it is promised", lambda: [m for m in place.telegram.from_bot(7) if m.get("text") == "It was promised."])
    ended, watched, (platform, key), handed = told(place.model)
    everything_is_promised(ended, watched, handed)
    assert platform == "telegram" and ":telegram:dm:7" in key
    woken(place.model)


def test_at_the_terminal_what_is_promised_is_kept(place, terminal):  # noqa: F811 - a fixture
    one = terminal(place).sees("/quit exits").types(ASKED).sees("It was promised.")
    ended, watched, (platform, _), handed = told(place.model)
    everything_is_promised(ended, watched, handed)
    assert platform == "terminal"
    woken(place.model)
    one.types("/quit")
    assert one.ends() == 0


def test_a_request_leaves_nothing_behind_for_the_next_turn(place):
    over(place.api, "whole")
    nothing_is_promised(*[told(place.model)[n] for n in (0, 1, 3)])
    place.telegram.says(7, ASKED)
    until("it is promised", lambda: [m for m in place.telegram.from_bot(7) if m.get("text") == "It was promised."])
    everything_is_promised(*[told(place.model)[n] for n in (0, 1, 3)])


def test_the_same_conversation_is_promised_things_where_it_goes_on_in_a_chat(place):
    over(place.api, "named")
    nothing_is_promised(*[told(place.model)[n] for n in (0, 1, 3)])
    [session] = json.loads(place.cli("session", "list", "--json").stdout)
    place.telegram.says(7, f"/resume {session['id']}")
    until("it goes on in the chat", lambda: [m for m in place.telegram.from_bot(7) if "Back in" in (m.get("text") or "")])
    place.telegram.says(7, ASKED)
    until("it is promised", lambda: [m for m in place.telegram.from_bot(7) if m.get("text") == "It was promised."])
    everything_is_promised(*[told(place.model)[n] for n in (0, 1, 3)])
    said = json.loads(place.cli("session", "show", session["id"], "--json").stdout)["messages"]
    assert [m["content"] for m in said if m["role"] == "user"][:2] == [ASKED, ASKED], "one conversation, over both"
