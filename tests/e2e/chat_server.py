"""What the model servers of these tests have in common: chat completions that are streamed, on a port of their own."""

import http.server
import json
import threading


class Chat(http.server.BaseHTTPRequestHandler):
    """One request, and the ways to answer it."""

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.reply("application/json", b'{"object": "list", "data": []}')

    def asked(self):
        return json.loads(self.rfile.read(int(self.headers["content-length"])))

    def stream(self, deltas, end="stop"):
        """Says the parts of a message one after the other."""
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for delta in deltas:
            self.chunk({"role": "assistant", **delta}, None)
        self.chunk({}, end)
        self.wfile.write(b"data: [DONE]\n\n")

    def chunk(self, delta, end):
        choice = {"index": 0, "delta": delta, "finish_reason": end}
        self.wfile.write(f"data: {json.dumps({'id': '1', 'object': 'chat.completion.chunk', 'choices': [choice]})}\n\n".encode())
        self.wfile.flush()

    def reply(self, kind, body, status=200):
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class ChatServer:
    """Serves with such a handler until it is stopped."""

    def serve(self, handler):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()
        self.base = f"http://127.0.0.1:{self.server.server_port}"

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
