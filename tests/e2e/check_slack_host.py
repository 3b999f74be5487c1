"""Check of the Slack emulator with Slack's own SDK. Connections, signatures, posts and uploads must work as the SDK
expects.

python check_slack_host.py BASE [EVENTS_PORT]
"""

import http.server
import sys
import threading
import time
import urllib.request

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError
from slack_sdk.signature import SignatureVerifier
from slack_sdk.socket_mode import SocketModeClient
from slack_sdk.socket_mode.response import SocketModeResponse

base = sys.argv[1]
api = f"{base}/api/"
bot, alice = WebClient(token="xoxb-hermes", base_url=api), WebClient(token="xoxp-alice", base_url=api)
me = bot.auth_test()
assert me["user_id"] == "U0HERMES1" and me["bot_id"] and me["team_id"]
channel = next(one["id"] for one in bot.conversations_list()["channels"] if one["name"] == "ops")


def until(what, check):
    deadline = time.monotonic() + 20
    while not check():
        assert time.monotonic() < deadline, f"not in time: {what}"
        time.sleep(0.05)


if len(sys.argv) > 2:
    verifier, seen = SignatureVerifier("sekret"), []

    class Receiver(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            seen.append(verifier.is_valid_request(body, {name.lower(): value for name, value in self.headers.items()}))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    alice.chat_postMessage(channel=channel, text="<@U0HERMES1> hello")
    until("the message and the mention", lambda: len(seen) == 2)
    assert seen == [True, True], "the SDK finds every request signed"
else:
    sockets, got = SocketModeClient(app_token="xapp-1-A-1", web_client=WebClient(base_url=api)), []

    def heard(client, request):
        got.append((request.type, request.payload))
        client.send_socket_mode_response(SocketModeResponse(envelope_id=request.envelope_id))

    sockets.socket_mode_request_listeners.append(heard)
    sockets.connect()
    message = alice.chat_postMessage(channel=channel, text="<@U0HERMES1> hello")
    until("the message and the mention", lambda: len(got) == 2)
    assert [payload["event"]["type"] for _, payload in got] == ["message", "app_mention"]
    assert got[0][1]["event"]["ts"] == got[1][1]["event"]["ts"] == message["ts"]
    answer = bot.chat_postMessage(channel=channel, text="thinking", thread_ts=message["ts"])
    bot.chat_update(channel=channel, ts=answer["ts"], text="done")
    assert [one["text"] for one in bot.conversations_replies(channel=channel, ts=message["ts"])["messages"]][-1] == "done"
    assert bot.assistant_threads_setStatus(channel_id=channel, thread_ts=message["ts"], status="is thinking…")["ok"]
    assert bot.files_upload_v2(channel=channel, content="log", filename="a.txt")["ok"]
    try:
        bot.chat_update(channel=channel, ts=answer["ts"], text="x" * 4001)
        raise AssertionError("a text that is too long is taken")
    except SlackApiError as error:
        assert error.response["error"] == "msg_too_long"
    limit = urllib.request.Request(f"{base}/_sim/fault", b'{"method": "chat.postMessage", "kind": 429, "after": 7}')
    urllib.request.urlopen(limit)
    try:
        bot.chat_postMessage(channel=channel, text="x")
        raise AssertionError("a limit is no limit")
    except SlackApiError as error:
        assert error.response.status_code == 429 and error.response.headers["Retry-After"] == "7"
    sockets.close()
print("the SDK agrees")
