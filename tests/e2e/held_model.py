"""A model that answers when it is told to, and remembers word for word what it was asked."""

import json
import threading
import time

from chat_server import Chat, ChatServer


def opened():
    gate = threading.Event()
    gate.set()
    return gate


class HeldModel(ChatServer):
    """Serves chat completions; while `held`, nothing is answered.

    `answer` gets the last message's content, `script` all messages; either may answer with a list of
    pieces, which are streamed one every `pace_s`.
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
                    pass  # Whoever asked is gone.

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
        """Answers nothing from now on, or nothing whose messages are `which`."""
        self.go, self.which = threading.Event(), which

    def release(self):
        self.go.set()

    def leave(self):
        """What waits goes on waiting, as nobody wants it any more; what comes is answered."""
        self.left.append(self.go)
        self.go = opened()

    def asked(self, words):
        """The requests whose last message contains these words."""
        return [messages for messages in list(self.requests) if words in messages[-1]["content"]]

    def stop(self):
        for go in [*self.left, self.go]:
            go.set()
        super().stop()
