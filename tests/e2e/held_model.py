"""A model that answers on command and records its exact input."""

import json
import threading
import time

from chat_server import Chat, ChatServer


def opened():
    gate = threading.Event()
    gate.set()
    return gate


class HeldModel(ChatServer):
    """A server of chat completions, which does not answer while `held`.

    `answer` gets the last message's content, `script` all messages. Either may return a list of pieces, which are
    streamed with a pause of `pace_s`.
    """

    def __init__(self, answer=lambda said: f"answer to <{said[:40]}>", script=None, pace_s=0):
        self.requests, self.left = [], []
        self.go, self.which = opened(), None
        outer = self

        class Handler(Chat):
            def do_POST(self):
                body = self.asked()
                if not self.path.endswith("/chat/completions"):
                    return self.reply("application/json", b"{}", 404)  # A question for another kind of server.
                waits = outer.which is None or outer.which(body["messages"])
                go = outer.go if waits else opened()
                outer.requests.append(body["messages"])
                go.wait()
                text = script(body["messages"]) if script else answer(body["messages"][-1]["content"])
                try:
                    self.say(text if isinstance(text, list) else [text], body.get("stream"))
                except OSError:
                    pass  # The client has disconnected.

            def say(self, pieces, streamed):
                if streamed:
                    return self.stream(self.paced(pieces))
                message = {"role": "assistant", "content": "".join(pieces)}
                body = {"id": "1", "object": "chat.completion", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
                return self.reply("application/json", json.dumps(body).encode())

            def paced(self, pieces):
                for n, piece in enumerate(pieces):
                    time.sleep(pace_s if n else 0)
                    yield {"content": piece}

        self.serve(Handler)

    def hold(self, which=None):
        """Holds back all answers from now on, or those to messages that match `which`."""
        self.go, self.which = threading.Event(), which

    def release(self):
        self.go.set()

    def leave(self):
        """Abandons the held requests and answers new ones."""
        self.left.append(self.go)
        self.go = opened()

    def asked(self, words):
        """Returns the requests whose last message contains these words."""
        return [messages for messages in list(self.requests) if words in messages[-1]["content"]]

    def stop(self):
        for go in [*self.left, self.go]:
            go.set()
        super().stop()
