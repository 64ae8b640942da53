"""What the benchmarks are made of: values and rules, and other ways to mask. Each `bench/*.py` itself is a program."""
