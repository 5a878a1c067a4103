"""The Telegram bot and the Telegram channel of the outbox.

    Telegram --- long polling or webhook ---> update ---> handler ---> service ---> reply
                                                |
                                    confirmed when its effects are committed

Updates are delivered at least once: a bot that is killed between an effect and its confirmation gets the update again.
Handlers are idempotent: an answer has the key of its button, images and sessions are named after their message, and a
person is found by Telegram id; the database decides which came first.
"""
