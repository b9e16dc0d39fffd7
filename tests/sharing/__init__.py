"""What sharing wins on recorded work: `python -m tests.sharing` simulates it and writes docs/benchmarks.md."""
