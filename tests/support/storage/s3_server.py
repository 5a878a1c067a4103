"""A bucket on a local S3 server that verifies signatures."""

import json
import re
from dataclasses import dataclass

import httpx2

from duly.settings import Settings

BUCKET = "photos"
ALLOW_ALL = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}


@dataclass(frozen=True)
class S3Server:
    """A server with one bucket and its key."""

    endpoint: str
    key_id: str
    secret: str

    def settings(self, **changed: str) -> Settings:
        """Return settings for the bucket."""
        variables = {
            "R2_BUCKET": BUCKET,
            "R2_ENDPOINT_URL": self.endpoint,
            "R2_ACCESS_KEY_ID": self.key_id,
            "R2_SECRET_ACCESS_KEY": self.secret,
        }
        return Settings(**(variables | changed))  # type: ignore[arg-type]


def make_key(endpoint: str) -> tuple[str, str]:
    """Create a user with full rights; return its key."""
    call_iam(endpoint, Action="CreateUser", UserName="duly")
    policy = json.dumps(ALLOW_ALL)
    call_iam(endpoint, Action="PutUserPolicy", UserName="duly", PolicyName="all", PolicyDocument=policy)
    answer = call_iam(endpoint, Action="CreateAccessKey", UserName="duly")
    found = re.search(r"<AccessKeyId>(.+?)<.*<SecretAccessKey>(.+?)<", answer, re.DOTALL)
    assert found
    return found[1], found[2]


def call_iam(endpoint: str, **form: str) -> str:
    """Call the IAM API of the server, which is selected by the scope of the signature."""
    authorization = "AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/iam/aws4_request, SignedHeaders=host, Signature=0"
    return (
        httpx2.post(endpoint, data=form, headers={"Authorization": authorization}, timeout=60).raise_for_status().text
    )
