"""Files from outside: what they may cost, JSON and TOML as plain data, and reading them apart.

A file may be anything, by accident or on purpose. `plain` makes data of JSON and TOML, `limits`
says what reading may cost, `apart` reads what must be stopped from without. Values are made of the
data by `gpuscope.document.typed`.
"""
