"""A server that imitates `serve`: a language model made of hashes, as slow and as wrong as asked.

`python fake_engine.py '{"behaviour": "honest", …}'`. Its tokens are bytes. What it emits next is a
function of all ids before, so that teacher-forced scores of the same fake are consistent.
"""

import asyncio
import base64
import hashlib
import json
import os
import signal
import socket
import struct
import sys
import time

from aiohttp import web

DEFAULTS = {
    "behaviour": "honest",
    "prompt_seconds": 0.0,
    "token_seconds": 0.01,
    "text_seconds": 0.0,
    "start_seconds": 0.0,
    "extensions": True,
    "mebibytes": 0,
}
LETTERS = [ord(letter) for letter in "abcdefghijklmnopqrstuvwxyz"]


def next_id(ids):
    digest = hashlib.sha256(bytes(json.dumps(list(ids)), "ascii")).digest()
    return LETTERS[digest[0] % len(LETTERS)]


def embedding(text):
    digest = hashlib.sha512(text.encode()).digest()
    values = [byte - 127.5 for byte in digest[:32]]
    norm = sum(value * value for value in values) ** 0.5
    return [value / norm for value in values]


class Fake:
    def __init__(self, settings):
        self.settings = settings
        self.behaviour = settings["behaviour"]
        self.requests = 0
        self.alive = 0
        self.first_output = None

    async def models(self, request):
        return web.json_response({"object": "list", "data": [{"id": "fake", "object": "model"}]})

    async def completions(self, request):
        body = await request.json()
        if not self.settings["extensions"] and {"return_token_ids", "ignore_eos"} & body.keys():
            return web.json_response({"error": {"message": "unknown field"}}, status=400)
        prompt = body["prompt"]
        ids = list(prompt.encode()) if isinstance(prompt, str) else list(prompt)
        if body.get("echo"):
            return web.json_response(self.scores(ids))
        self.requests += 1
        if self.behaviour == "dies" and self.requests == 3:
            os._exit(3)
        if self.behaviour == "errors" and self.requests == 3:
            return web.json_response({"error": {"message": "out of paper"}}, status=500)
        if not body.get("stream"):
            text = bytes(self.generate(ids, body["max_tokens"])).decode()
            return web.json_response({"choices": [{"text": text, "finish_reason": "length"}]})
        self.alive += 1
        try:
            return await self.stream(request, ids, body)
        finally:
            self.alive -= 1

    def scores(self, ids):
        own, top = [None], [None]
        for place in range(1, len(ids)):
            best = next_id(ids[:place])
            own.append(-0.1 if ids[place] == best else -5.0)
            top.append({chr(best): -0.1})
        return {"choices": [{"logprobs": {"token_logprobs": own, "top_logprobs": top}}]}

    def generate(self, ids, count):
        emitted = []
        while len(emitted) < count:
            token = next_id([*ids, *emitted])
            if self.behaviour == "wrong":
                token = LETTERS[(LETTERS.index(token) + 1) % len(LETTERS)]
            emitted.append(token)
        if self.first_output is None:
            self.first_output = emitted
        if self.behaviour == "repeats":
            emitted = [self.first_output[n % len(self.first_output)] for n in range(count)]
        return emitted

    async def stream(self, request, ids, body):
        count = body["max_tokens"]
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        emitted, finish = self.generate(ids, count), "length"
        await asyncio.sleep(self.settings["prompt_seconds"])
        if self.behaviour == "batch_dependent" and self.alive > 1:
            emitted[-1] = LETTERS[(LETTERS.index(emitted[-1]) + 1) % len(LETTERS)]
        if self.behaviour == "early":
            emitted, finish = emitted[: count // 2], "stop"
        if self.behaviour == "drops":
            emitted = emitted[:-1]
        pieces = [emitted] if self.behaviour == "bursts" else [[token] for token in emitted]
        for number, piece in enumerate(pieces):
            if number:
                await asyncio.sleep(self.settings["token_seconds"])
            if self.behaviour == "hangs" and number == 2:
                await asyncio.sleep(3600)
            choice = {"index": 0, "text": bytes(piece).decode(), "finish_reason": None}
            if body.get("return_token_ids"):
                choice["token_ids"] = piece
            await self.event(response, {"choices": [choice]})
        last = {"index": 0, "text": "", "finish_reason": finish}
        usage = {"prompt_tokens": len(ids), "completion_tokens": len(emitted)}
        await self.event(response, {"choices": [last]})
        if self.settings["extensions"]:
            await self.event(response, {"choices": [], "usage": usage})
        await response.write(b"data: [DONE]\n\n")
        return response

    async def event(self, response, held):
        await response.write(b"data: " + json.dumps(held).encode() + b"\n\n")

    async def embeddings(self, request):
        body = await request.json()
        await asyncio.sleep(self.settings["text_seconds"])
        data = []
        self.alive += 1
        for number, text in enumerate(body["input"]):
            values = embedding(text)
            if self.behaviour == "wrong":
                values = embedding("always this")
            if self.behaviour == "coarse":
                values = [round(value, 2) for value in values]
            if self.behaviour == "nan":
                values[3] = float("nan")
            if body.get("encoding_format") == "base64" and self.settings["extensions"]:
                values = base64.b64encode(struct.pack(f"<{len(values)}f", *values)).decode()
            data.append({"index": number, "embedding": values})
        self.alive -= 1
        return web.json_response({"data": data, "usage": {"prompt_tokens": 1}})


async def serve(settings, listener):
    fake = Fake(settings)
    app = web.Application()
    app.router.add_get("/v1/models", fake.models)
    app.router.add_post("/v1/completions", fake.completions)
    app.router.add_post("/v1/embeddings", fake.embeddings)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.SockSite(runner, listener)
    await site.start()
    address = listener.getsockname()
    print(json.dumps({"event": "ready", "address": f"127.0.0.1:{address[1]}"}), flush=True)
    await asyncio.sleep(3600)


def main():
    settings = DEFAULTS | json.loads(sys.argv[1])
    match sys.argv[2:]:
        case ["--listen-fd", number]:
            listener = socket.socket(fileno=int(number))
        case [port]:
            listener = socket.create_server(("127.0.0.1", int(port)))
        case _:
            listener = socket.create_server(("127.0.0.1", 0))
    time.sleep(settings["start_seconds"])
    if settings["behaviour"] == "no_start":
        print("fake: no such luck", file=sys.stderr)
        sys.exit(7)
    hoard = bytearray(os.urandom(1 << 20) * settings["mebibytes"])
    if settings["behaviour"] == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    asyncio.run(serve(settings, listener))
    del hoard


if __name__ == "__main__":
    main()
