"""gpuscope for coding assistants: tools over the Model Context Protocol.

`types` are the results, `digests` makes them short, `results` keeps what they were made of, `tools`
is what can be called, `child` runs code of the user's, `server` puts it all on standard input and
output, `method.md` teaches how to use it.
"""
