"""The HTTP door: routes translate, call a service, and translate back.

    request --> who asks? (keys) --> how much do they bring? (guard) --> is it well said? (shapes) --> route --> service
                   401                      413                             422        403          404, 409

Whatever goes wrong leaves as one kind of body, `application/problem+json`, with the code of the error tree (problems).
`/healthz` and `/readyz` ask for nothing. docs/api.md shows how to use the rest.
"""
