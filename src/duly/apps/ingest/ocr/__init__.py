"""Optical character recognition: turns a photograph of a schedule into days with their shifts.

    bytes --decode--> image --OCR--> text boxes --deskew--> lines --dates, layout--> days with shifts
          `reader`          `engine`            `lines`            `header`, `layout`  `reader`

The layout analysis has three steps, one module each: group the lines around the time ranges into blocks
(`segmentation`), assign the rows of a block to fields (`block_fields`), and report what is inconsistent (`problems`).

Only `engine` and the modules it builds on import an OCR library, and only they handle images; everything after the text
boxes is pure. All of it runs in a child process that may crash: its parent, `photographs`, sends bytes and receives
days or an error message.
"""
