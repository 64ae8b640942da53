"""The furniture every protocol is given. No I/O, no protocol."""
