"""Eyes: a photograph of a screen becomes a page with a day and its shifts.

    bytes --decoded safely--> picture --engine--> marks --straightened--> lines --header, layout--> page
          `looking`                   `engine`          `lines`                `header`, `layout`    `page`

The layout asks four questions, each in a file: where are times (`anchors`), which lines belong to them (`parts`), what
do these say (`cards`), and what cannot be right (`problems`).

Only `engine` knows an OCR library, and only `looking` a picture; from marks on everything is pure. All of it runs in a
child process that may die: its parent, `photographs`, sends bytes and gets a page or a sentence.
"""
