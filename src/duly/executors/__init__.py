"""Child processes for code that must not take its parent down: isolated handlers, image decoding, OCR."""
