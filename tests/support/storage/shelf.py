"""A bucket on a server that speaks S3 over HTTP and checks every signature."""

import json
import re
from dataclasses import dataclass

import httpx2

from duly.settings import Settings

__all__ = ["BUCKET", "Shelf", "make_key"]

BUCKET = "photos"
ANYTHING_IN_S3 = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}


@dataclass(frozen=True)
class Shelf:
    """A server with one bucket, and the key that opens it."""

    endpoint: str
    key_id: str
    secret: str

    def settings(self, **changed: str) -> Settings:
        """Settings that lead to the bucket."""
        leading = {
            "R2_BUCKET": BUCKET,
            "R2_ENDPOINT_URL": self.endpoint,
            "R2_ACCESS_KEY_ID": self.key_id,
            "R2_SECRET_ACCESS_KEY": self.secret,
        }
        return Settings(**(leading | changed))  # type: ignore[arg-type]


def make_key(endpoint: str) -> tuple[str, str]:
    """A user with a key for everything."""
    tell(endpoint, Action="CreateUser", UserName="duly")
    policy = json.dumps(ANYTHING_IN_S3)
    tell(endpoint, Action="PutUserPolicy", UserName="duly", PolicyName="all", PolicyDocument=policy)
    answer = tell(endpoint, Action="CreateAccessKey", UserName="duly")
    found = re.search(r"<AccessKeyId>(.+?)<.*<SecretAccessKey>(.+?)<", answer, re.DOTALL)
    assert found
    return found[1], found[2]


def tell(endpoint: str, **form: str) -> str:
    """Ask the server's keeper of users, who knows by the signature's form that he is meant."""
    meant = "AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/iam/aws4_request, SignedHeaders=host, Signature=0"
    return httpx2.post(endpoint, data=form, headers={"Authorization": meant}).raise_for_status().text
