"""Eyes: a photograph of a screen becomes a page with a day and its shifts.

    bytes --decoded safely--> picture --engine--> marks --straightened--> lines --header, layout--> page
          `looking`                   `engine`          `lines`                `header`, `layout`    `page`

Only `engine` knows an OCR library, and only `looking` a picture; from marks on everything is pure. All of it runs in a
child process that may die: its parent, `photographs`, sends bytes and gets a page or a sentence.
"""
