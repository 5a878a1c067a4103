"""Ingest: photographed day schedules become versions, semantic events and notifications, in one transaction.

    pending ---> processing ---> done        the day is recorded, or unchanged
       |            |    ^ \
       |            |    +-- lease expired: another worker claims it
       +------------+------> failed          with an error text for its person; no day is changed

    photographs --OCR----> payload --canonicalize--> hash, version
                                           |
                                           +--> shifts --diff with the known day--> events --> notifications

Hash, stored snapshot and diff all use the canonical form of a day. A new version is written exactly when it changed;
replaying a day's events over an empty day rebuilds its snapshot. Only one worker writes a person's day at a time.

To follow a capture, read in this order:

    create        service, image_intake (a bot's images), repository
    claim         work, states
    read          reading, photographs, ocr/ (from `ocr.reader.recognise` on), pages, aggregate
    canonical     canonical, spelling, shift, labels
    settle        recording, settlement, day, diff, notifications, messages
    look back     day_history, explain
"""
