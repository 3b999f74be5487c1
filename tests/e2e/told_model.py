"""A model for stories: short answers at once, a long one piece by piece on command."""

import re
import threading

from chat_server import Chat, ChatServer

MOVED = "was moved to this chat"


def long_answer(chars=6000):
    """Returns prose, code and prose with at least `chars` characters. Every word occurs once."""
    lines, n = ["Here is all of it, from the first word on.", ""], 0
    while sum(map(len, lines)) + len(lines) < chars:
        lines += [" ".join(f"word{n}x{at}" for at in range(24)) + ".", "", "```rust"]
        lines += [f"    if value_{n}_{at} < {at} && left > right {{ go_{n}_{at}(\"🦀\"); }}" for at in range(8)] + ["```", ""]
        n += 1
    return "\n".join([*lines, "And that is the end of it."])


class ToldModel(ChatServer):
    """A server of chat completions. A message with `at length` gets the long answer: until `release`, in as many
    pieces as were allowed. Received files are sent back, and all other messages are answered with their first
    number."""

    def __init__(self, long):
        self.long, self.requests = long, []
        self.allowed, self.free, self.changed = 0, True, threading.Condition()
        outer = self

        class Handler(Chat):
            def do_POST(self):
                body = self.asked()
                outer.requests.append(body["messages"])
                try:
                    self.stream({"content": piece} for piece in outer.pieces(body["messages"][-1]["content"]))
                except OSError:
                    pass  # The client has disconnected.

        self.serve(Handler)

    def pieces(self, said):
        if "at length" not in said:
            yield self.short(said)
            return
        for at in range(0, len(self.long), 500):
            with self.changed:
                self.changed.wait_for(lambda: self.free or self.allowed > 0)
                self.allowed -= 1
            yield self.long[at:at + 500]

    def short(self, said):
        if MOVED in said:
            return f"It {MOVED}."
        if files := re.findall(r'to read the file at "([^"]+)"', said):
            return "\n".join(["Here they are again.", *(f"MEDIA:{path}" for path in files)])
        return f"Answer to {re.search(r'number [0-9]+', said).group()}."

    def hold(self):
        with self.changed:
            self.free, self.allowed = False, 0

    def allow(self, pieces):
        with self.changed:
            self.allowed += pieces
            self.changed.notify_all()

    def release(self):
        with self.changed:
            self.free = True
            self.changed.notify_all()

    def asked(self, words):
        """Returns the requests whose last message contains these words."""
        return [messages for messages in list(self.requests) if words in messages[-1]["content"]]

    def stop(self):
        self.release()
        super().stop()
