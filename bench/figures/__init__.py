"""All benchmarks in turn, and what came of them: raw answers, pictures, and one page.

    duly bench all --> python -m bench.ledger --json --> docs/figures/ledger.data.json --> ledger-*.svg  \\
                       python -m bench.ingest --json --> docs/figures/ingest.data.json --> ingest-*.svg   > README.md
                       ...                                                                               /

A raw answer is kept with machine, versions, commit and load, so that pictures and page can be made from it again
without measuring: `python -m bench.figures --from-json docs/figures`. Everything written says in its first line that it
was, and by which command; a file that does not is somebody's own and is never touched.
"""
