"""Applications on the engine, each the implementation of a written contract. They never import each other."""
