"""The common parts of the model servers of these tests: streamed chat completions on a separate port."""

import http.server
import json
import threading


class Chat(http.server.BaseHTTPRequestHandler):
    """A request handler with methods for all forms of answers."""

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.reply("application/json", b'{"object": "list", "data": []}')

    def asked(self):
        return json.loads(self.rfile.read(int(self.headers["content-length"])))

    def stream(self, deltas, end="stop"):
        """Sends the parts of a message one after the other."""
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
    """A server with such a handler that runs until it is stopped."""

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
