"""What Veil costs, measured. Run by hand or by `make bench`; no test measures time here."""
