"""The load client: asks a running OpenAI-compatible server for answers, and times what comes.

    address   where the server is        connection  bytes over a socket, with their times
    reply     what an answer's bytes say  pace        open and closed loop, own lateness
    prompts   what is asked               probe       what the server takes, found out beforehand
    failure   what went wrong, in words   scrape      what the server says of itself
    receiver  where a server's spans go    spans      what an OTLP message says
    traced    which request a span is of   dcgm       what NVIDIA's exporter says of the devices
    triton    tensors instead of prompts   run       all of it: a measured `Serving`

It is made of asyncio's own transports, not of an HTTP library: with 1,000 streams of 10 tokens a
second, the libraries send requests five (aiohttp) and twenty times (httpx) as late, which a server
would be blamed for (`benchmarks/load_client.py`).
"""
