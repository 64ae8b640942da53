"""What may be seen. Pure: no sockets, no clocks; files only under `rules.store`, and `rules.scan` looks at its own."""
