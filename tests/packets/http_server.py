"""An HTTP server in a namespace: `http_server.py PORT NAME`. `/` gives its name, `/big` a megabyte; of what is posted it says the length and
the CRC-32."""
import sys
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BIG = bytes(i * 7 & 255 for i in range(1 << 20))


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, body):
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.answer(BIG if self.path == "/big" else sys.argv[2].encode())

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(b"%s %d %08x" % (sys.argv[2].encode(), len(body), zlib.crc32(body)))

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("0.0.0.0", int(sys.argv[1])), Handler)
print("serving", flush=True)
server.serve_forever()
