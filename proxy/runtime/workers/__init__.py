"""Several processes that serve the same addresses, and the one that starts, watches and ends them.

    supervisor ──starts──▶ worker 1 … N      each listens on a socket of its own for every address (SO_REUSEPORT)
        ▲ admin port         │
        └──── channel ───────┘               orders and questions down, reports up; its end is the worker's end

`crew` is the supervisor's side, `desk` the worker's; `channel` and `report` are what they say to each other.
"""
