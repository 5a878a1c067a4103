"""The bot: what people tap and write on Telegram, translated, given to a service, and translated back.

    Telegram --- long polling or webhook ---> update ---> handler ---> service ---> words, a receipt
                                                |
                                    confirmed when its effects are committed

An update comes at least once: whoever is killed between an effect and its confirmation gets it again, and doing it
again does nothing more. An answer has the key of its button, a photograph and a session the name of their message, a
person their Telegram id; the database decides which came first.
"""
