"""All benchmarks in turn, and their results: raw answers, charts, and one page.

    duly bench all -> python -m tools.bench.ledger --json -> docs/figures/ledger.data.json -> ledger-*.svg  \\
                      python -m tools.bench.ingest --json -> docs/figures/ingest.data.json -> ingest-*.svg   > README.md
                      ...                                                                                   /

A raw answer is kept with machine, versions, commit and load, so that charts and page can be made from it again without
measuring: `python -m tools.bench.figures --from-json docs/figures`. The first line of every file written says that it
was generated, and by which command; a file that does not say so is never overwritten.
"""
