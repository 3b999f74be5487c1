"""What may be promised for after a turn, over each kind of interface, black-box.

Each case of hermes-agent's `tests/gateway/test_async_delivery.py` has its place; `gate` is
`host/agent/tests/tools/gate.rs`, next to the code.

| their case | ours |
|---|---|
| default_unbound_is_supported | gate: never_bound_counts_as_supported |
| set_true_is_supported | gate: bound_to_a_delivering_interface_is_supported_and_its_platform_stays_readable |
| set_false_is_unsupported | `test_over_a_request_nothing_is_promised_and_its_platform_is_readable` |
| omitted_arg_defaults_supported | `test_what_an_adapter_can_is_what_its_manifest_says` (telegram says nothing of it) |
| clear_resets_to_default_supported | gate: cleared_falls_back_to_supported |
| base_default_true, api_server_false | `test_what_an_adapter_can_is_what_its_manifest_says` |
| api_server_bind_chokepoint_hardwires_no_delivery | `test_over_a_request_…`, once for each way to ask |
| api_server_binding_does_not_outlive_turn | gate: the_same_session_is_not_blocked_by_an_earlier_stateless_interface |
| api_server_skips_watcher_and_notes | `test_over_a_request_…` |
| gateway_registers_watcher | gate: with_support_a_watch_is_registered_for_the_interface_that_asked |
| cli_stays_supported | gate: the same, over any interface that delivers |
"""

import json

import httpx
import pytest

from conftest import BIN, free_port, request, telegram_section
from test_api_server import KEY
from test_model import config, model  # noqa: F401 - a fixture

ASKED = "promise me"
TOOLS = 'tools = ["terminal", "process", "delegate_task"]\n'
# Whose key it is: with a name in the list they are the operator, whose conversations go on everywhere.
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
    """A host that is reached by a request, in a chat and at the terminal."""
    base = f"http://127.0.0.1:{free_port()}"
    section = TOOLS + api_section(base).replace("key ", f'isolation = "{isolation}"\nkey ', 1) + telegram_section(telegram, isolation)
    one = host(config(model) + section, {"OPENAI_API_KEY": "sk-test", "API_SERVER_KEY": KEY})
    one.start(online=["api_server", "telegram"])
    one.api, one.model, one.telegram = base, model, telegram
    yield one
    one.stop()


def asked(model):  # noqa: F811 - an address here
    """Every request that the model got: what was said last, and the results of tools since."""
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
    """What the model was told of its four calls, the last time it made them."""
    ended, watched, printed, handed = [results for said, results in asked(model) if ASKED in said and results][-1]
    return json.loads(ended), json.loads(watched), json.loads(printed)["output"].split(), json.loads(handed)


def over(base, way, text=ASKED):
    """Asks over the HTTP API, and hears the answer to its end."""
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
    assert handed["result"] == "Seven sheep." and "done at once" in handed["note"], handed


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
    # Another whole turn later still nobody was woken: the model was asked for what people said, and for the helper's task.
    over(place.api, way, "hello")
    assert {said for said, _ in asked(place.model)} == {ASKED, "count the sheep", "hello"}
