"""One SGLang server as a thing with a life. Knows no runs.

People's side: `requests` (what they send), `service` (what they may do), `actions` (when), `views` (what they see).
Below it, each room knowing only those after it:
`supervision` brings servers from what they are to what they should be; `probe` asks whether their ids can be trusted;
`launch` makes a command line of what was asked for; `logs` reads what they write; `server` speaks HTTP with one;
`host` is this machine: processes, ports' holders, GPUs. `engine` installs SGLang itself.
"""
