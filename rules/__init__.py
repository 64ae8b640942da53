"""What may be seen. Pure: no sockets, no clocks; files only under `rules.store`."""
