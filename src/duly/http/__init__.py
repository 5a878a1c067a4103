"""The HTTP API: a route parses the request, calls a service, and renders the result.

    request --> API key --> announced size --> access rule --> body --> validation --> route --> service
                  401            413             403, 429    413, 503      422                   404, 409

Authentication and access rules are in `auth`, limits of the body in `request_limits`. Every error is an
`application/problem+json` response with the code of the error tree (`problems`). `/healthz` and `/readyz` need no key.
docs/api.md shows how to use the rest.
"""
